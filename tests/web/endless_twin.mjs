// A twin whose fourth call of `train` never ends: an aborted signal ends the training, `recover`
// starts new threads, and `dispose` ends a call without a signal.
import { readFileSync } from 'node:fs';
import { open } from '../../runtime_js/core/loader.js';

const { plan, twin } = JSON.parse(readFileSync(0, 'utf8'));
const code = new Uint8Array(Buffer.from(twin, 'base64'));
const bundle = { plan: JSON.parse(plan), kernels: async () => ({}), twin: () => code };
const batch = { x: new Float32Array(32), y: new Float32Array(8) };
const messageOf = async job => {
  try {
    await job();
    return 'done';
  } catch (error) {
    return error.code && error.code !== 'enough' ? error.message : `${error.message ?? error}`;
  }
};

const model = await open(bundle, { device: 'wasm', threads: 1 });
const stopper = new AbortController();
const reason = Object.assign(new Error('enough'), { code: 'enough' });
const data = step => {
  if (step === 3) setTimeout(() => stopper.abort(reason), 50);
  return batch;
};
const fit = await messageOf(() => model.fit(data, { steps: 9, signal: stopper.signal }));
const after = await messageOf(() => model.predict({ x: batch.x }));
const recovered = await messageOf(async () => {
  await model.recover();
  await model.predict({ x: batch.x });
});
for (let i = 0; i < 3; i++) await model.train(batch);
setTimeout(() => model.dispose(), 50);
const disposed = (await messageOf(() => model.train(batch))).split(':')[0];
process.stdout.write(JSON.stringify({ fit, after, recovered, disposed }));
