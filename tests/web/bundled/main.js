// An app that a web bundler builds; the bundle is outside its folder. `results` gets what happened.
import { load } from '../bundle/index.js';

const batch = {
  x: Float32Array.from({ length: 18 }, (_, i) => Math.sin(i)),
  y: Float32Array.from({ length: 6 }, (_, i) => Math.cos(i)),
};

async function lossOn(device) {
  const model = await load({ device, ...globalThis.options });
  const { loss } = await model.train(batch);
  // Another file of the runtime, and the bundle's weights once more.
  await model.reset(undefined, { own: true });
  model.dispose();
  return loss[0];
}

globalThis.results = Promise.all(['wasm', 'webgpu'].map(lossOn)).catch(
  ({ code, field, message, stack }) => ({ code, field, message: code ? message : stack }),
);
