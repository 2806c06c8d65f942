// The same models in TensorFlow.js on its WebGPU or its WebAssembly backend, with its own Adam.
import '@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops';
import '@tensorflow/tfjs-core/dist/register_all_gradients';
import * as tf from '@tensorflow/tfjs-core';
import { batchOf, begin, weightsOf } from './task.js';

const linear = (p, name, x) => {
  const w = p[`${name}.w`];
  const flat = x.reshape([-1, w.shape[0]]);
  return tf
    .add(tf.matMul(flat, w), p[`${name}.b`] ?? 0)
    .reshape([...x.shape.slice(0, -1), w.shape[1]]);
};

const norm = (p, name, x) => {
  const { mean, variance } = tf.moments(x, -1, true);
  return tf.add(
    tf.mul(tf.div(tf.sub(x, mean), tf.sqrt(tf.add(variance, 1e-5))), p[`${name}.g`]),
    p[`${name}.b`],
  );
};

const crossEntropy = (logits, labels, classes) => {
  const flat = logits.reshape([-1, classes]);
  return tf.neg(
    tf.mean(tf.sum(tf.mul(tf.logSoftmax(flat), tf.oneHot(labels.flatten(), classes)), -1)),
  );
};

const gelu = x => tf.mul(tf.mul(0.5, x), tf.add(1, tf.erf(tf.mul(x, Math.SQRT1_2))));

/** Its WebAssembly backend has no gradient of `gather`. */
const embed = (table, ids) =>
  tf.getBackend() === 'wasm'
    ? tf.matMul(tf.oneHot(ids.flatten(), table.shape[0]), table).reshape([...ids.shape, -1])
    : tf.gather(table, ids);

function attention(p, name, x, mask) {
  const [batch, time, width] = x.shape;
  const heads = part => tf.transpose(part.reshape([batch, time, 4, width / 4]), [0, 2, 1, 3]);
  const [q, k, v] = tf.split(linear(p, `${name}.qkv`, x), 3, -1).map(heads);
  const scores = tf.add(tf.mul(tf.matMul(q, k, false, true), (width / 4) ** -0.5), mask);
  const y = tf.matMul(tf.softmax(scores), v);
  return linear(p, `${name}.out`, tf.transpose(y, [0, 2, 1, 3]).reshape([batch, time, width]));
}

const LOSSES = {
  a(p, { x, y }) {
    const h = tf.tanh(linear(p, 'l2', tf.tanh(linear(p, 'l1', x))));
    return tf.mean(tf.squaredDifference(linear(p, 'l3', h), y));
  },
  b(p, { x, y }) {
    const h = tf.relu(linear(p, 'l2', tf.relu(linear(p, 'l1', x))));
    return crossEntropy(linear(p, 'l3', h), y, 10);
  },
  c(p, { ids, labels, mask }) {
    let x = tf.add(embed(p['tok.w'], ids), p['pos.w']);
    for (const block of ['blocks.0', 'blocks.1']) {
      x = tf.add(x, attention(p, `${block}.attn`, norm(p, `${block}.norm1`, x), mask));
      x = tf.add(
        x,
        linear(p, `${block}.down`, gelu(linear(p, `${block}.up`, norm(p, `${block}.norm2`, x)))),
      );
    }
    return crossEntropy(linear(p, 'head', norm(p, 'norm', x)), labels, 65);
  },
};

const BACKENDS = {
  webgpu: () => import('@tensorflow/tfjs-backend-webgpu'),
  wasm: async ({ folder, files }) => {
    const { setWasmPaths } = await import('@tensorflow/tfjs-backend-wasm');
    setWasmPaths(`${folder ?? files}/tfjs/`);
  },
};

begin(async task => {
  const { model: name, backend } = task;
  await BACKENDS[backend](task);
  await tf.setBackend(backend);
  await tf.ready();
  const tensors = group =>
    Object.fromEntries(
      Object.entries(group).map(([key, [data, shape]]) => [
        key,
        tf.tensor(data, shape, data instanceof Int32Array ? 'int32' : 'float32'),
      ]),
    );
  const weights = tensors(await weightsOf(name));
  if (name === 'matmul')
    return async () => {
      const c = tf.tidy(() => tf.slice(tf.matMul(weights.a, weights.b), [0, 0], [1, 1]));
      await c.data();
      c.dispose();
      return 0;
    };
  const p = Object.fromEntries(
    Object.entries(weights).map(([key, value]) => [key, tf.variable(value)]),
  );
  const batch = tensors(await batchOf(name));
  const adam = tf.train.adam(1e-3, 0.9, 0.999, 1e-8);
  // Added to the scores: 0 for visible keys, a large negative number for masked ones.
  const below = Float32Array.from({ length: 64 * 64 }, (_, i) =>
    i % 64 <= Math.floor(i / 64) ? 0 : -1e9,
  );
  batch.mask = tf.tensor(below, [64, 64]);
  return async () => {
    const loss = tf.tidy(() => adam.minimize(() => LOSSES[name](p, batch), true));
    const [value] = await loss.data();
    loss.dispose();
    return value;
  };
});
