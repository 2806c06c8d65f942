// What compiles against a bundle's index.d.ts, and what must not: every wrong line is marked as such.
import { load, meta, tensor, WgccError, type Digits, type History, type Params } from 'bundle';

const image = new Uint8Array(64 * 64), label = new Int32Array(64);
const few = { image: tensor(new Uint8Array(5 * 64), [5, 8, 8]), label: tensor(new Int32Array(5), [5]) };

export async function right(): Promise<void> {
  const model: Digits = await load({ worker: true, seed: 1, profile: 'gpu', verify: true, onProgress: ({ stage, done }) => console.log(stage, done) });
  const { loss, acc } = await model.train({ image, label });
  const first: number = loss[0] + acc[0], shape: readonly [10] = (await model.predict({ image: tensor(new Uint8Array(64), [1, 8, 8]) })).probs.shape;
  for await (const { step, loss, outputs } of model.fit({ image, label }, { steps: 10, every: 5, recover: true, signal: AbortSignal.timeout(10) })) console.log(step, loss, outputs.acc);
  for await (const report of model.fit(step => ({ image, label }), { entry: 'train' })) console.log(report.ms, first, shape);
  for await (const report of model.fit([{ image, label }])) console.log(report.step);
  const history: History<'train'> = await model.fit({ image, label }, { epochs: 2, validation: { image, label }, validationEntry: 'eval', validationEvery: 5 });
  const last: number = history.reports[0].outputs.acc + (history.reports[0].validation?.acc ?? 0) + (history.loss ?? 0), why: 'steps' | 'data' | 'stop' = history.stopped;
  await model.fit({ image, label }, { steps: 1, validation: async other => ({ acc: (await other.call('eval', few)).acc[0] + last + why.length }) }).catch(console.error);
  const params: Params = await model.params(), weights: Float32Array = params['fc1.w'], classes: 10 = meta.params['fc2.b'].shape[0];
  await model.loadParams(params);
  await model.loadParams({ 'fc1.w': weights }, { strict: false });
  const bytes: Uint8Array = await model.save({ optimizer: true });
  await model.restore(bytes);
  console.log(await model.store(), await model.recall(), (await model.profile('eval')).rows[0].at, classes, (await model.call('eval', { image: new Uint8Array(360 * 64), label: new Int32Array(360) })).loss);
  console.log((await model.eval(few)).acc.shape.length);
  const grid = Array.from({ length: 8 }, () => [0, 1, 2, 3, 4, 5, 6, 7]);
  await model.predict({ image: [grid] });
  await model.predict({ image: document.createElement('canvas') });
  await model.predict({ image: new ImageData(8, 8) });
  const kept: readonly number[] = (await model.predict({ image: [grid] }, { output: 'gpu' })).probs.shape, type: 'f32' | 'i32' | 'u32' | 'i8' | 'u8' | 'bool' = (await model.call('predict', { image: [grid] }, { output: 'gpu' })).probs.dtype;
  console.log(kept, type);
  await model.fit({ image: [grid, grid], label: [1, 2] }, { steps: 1 });
  for await (const piece of model.generate('a', { steps: 3, stop: ['b'], temperature: 0, topK: 1, topP: 0.5, seed: 1, entry: 'predict' })) console.log(piece.length);
  await model.lost.then(info => info.reason);
  await model.recover();
  model.dispose();
  console.log(new WgccError().code);
}

export async function wrong(model: Digits): Promise<void> {
  // @ts-expect-error an input's name
  await model.train({ image, labels: label });
  // @ts-expect-error an input is missing
  await model.train({ image });
  // @ts-expect-error an output's name
  (await model.train({ image, label })).accuracy;
  // @ts-expect-error an entry's name
  await model.test({ image, label });
  // @ts-expect-error an entry's name, by call
  await model.call('test', { image });
  // @ts-expect-error an element type
  await model.train({ image: new Float32Array(64 * 64), label });
  // @ts-expect-error another element type
  await model.train({ image, label: new Uint32Array(64) });
  // @ts-expect-error a shape literal
  await model.predict({ image: tensor(new Uint8Array(64), [8, 8, 1]) });
  // @ts-expect-error a shape literal in what an entry returns
  const shape: readonly [11] = (await model.predict({ image })).probs.shape;
  // @ts-expect-error an output given to an input of another shape
  await model.predict({ image: (await model.params())['fc1.w'] });
  // @ts-expect-error a parameter's name
  (await model.params())['fc3.w'];
  // @ts-expect-error a parameter's name, when writing
  await model.loadParams({ 'fc3.w': new Float32Array(1) }, { strict: false });
  // @ts-expect-error a parameter's element type
  await model.loadParams({ 'fc1.w': new Int32Array(4096) }, { strict: false });
  // @ts-expect-error all parameters are needed
  await model.loadParams({ 'fc1.w': new Float32Array(4096) });
  // @ts-expect-error a batch's element type
  model.fit({ image, label: new Float32Array(64) }, { steps: 1 });
  // @ts-expect-error a batch's name
  model.fit({ images: image, label }, { steps: 1 });
  // @ts-expect-error an entry that does not train
  model.fit({ image, label }, { steps: 1, entry: 'eval' });
  // @ts-expect-error a batch of a function
  model.fit(() => ({ image }), { steps: 1 });
  // @ts-expect-error text is no list of numbers
  await model.predict({ image: ['a'] });
  // @ts-expect-error an option of generate
  model.generate('a', { top_k: 1 });
  // @ts-expect-error where outputs stay
  await model.predict({ image }, { output: 'cpu' });
  // @ts-expect-error a report's output
  (await model.fit({ image, label }, { steps: 1 })).reports[0].outputs.accuracy;
  // @ts-expect-error an output that is no number
  model.fit({ image, label }, { steps: 1 }).then(({ reports }) => reports[0].outputs.probs);
  // @ts-expect-error an option of fit
  model.fit({ image, label }, { step: 1 });
  // @ts-expect-error what validates
  model.fit({ image, label }, { steps: 1, validation: { images: image, label } });
  // @ts-expect-error which entry validates
  model.fit({ image, label }, { steps: 1, validation: { image, label }, validationEntry: 'test' });
  // @ts-expect-error an option's name
  await load({ seeds: 1 });
  // @ts-expect-error a dtype
  const dtype: 'f16' = meta.entries.train.inputs.image.dtype;
}
