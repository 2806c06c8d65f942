// The same models in jax-js: the whole step, Adam included, is one jitted function.
import {
  blockUntilReady,
  defaultDevice,
  init,
  jit,
  nn,
  numpy as np,
  tree,
  valueAndGrad,
} from '@jax-js/jax';
import { batchOf, begin, weightsOf } from './task.js';

const linear = (p, name, x) => np.matmul(x, p[`${name}.w`].ref).add(p[`${name}.b`].ref);

const norm = (p, name, x) => {
  const centred = x.ref.sub(np.mean(x, -1, { keepdims: true }));
  const variance = np.mean(np.square(centred.ref), -1, { keepdims: true });
  return centred
    .div(np.sqrt(variance.add(1e-5)))
    .mul(p[`${name}.g`].ref)
    .add(p[`${name}.b`].ref);
};

const crossEntropy = (logits, labels, classes) =>
  np.mean(np.sum(nn.logSoftmax(logits, -1).mul(nn.oneHot(labels, classes)), -1)).neg();

function attention(p, name, x) {
  const [batch, time, width] = x.shape;
  const [q, k, v] = np
    .split(linear(p, `${name}.qkv`, x), 3, -1)
    .map(part => part.reshape([batch, time, 4, width / 4]));
  const y = nn.dotProductAttention(q, k, v, { isCausal: true });
  return linear(p, `${name}.out`, y.reshape([batch, time, width]));
}

const LOSSES = {
  a(p, { x, y }) {
    const h = np.tanh(linear(p, 'l2', np.tanh(linear(p, 'l1', x))));
    return np.mean(np.square(linear(p, 'l3', h).sub(y)));
  },
  b(p, { x, y }) {
    const h = nn.relu(linear(p, 'l2', nn.relu(linear(p, 'l1', x))));
    return crossEntropy(linear(p, 'l3', h), y, 10);
  },
  c(p, { ids, labels }) {
    let x = np.matmul(nn.oneHot(ids, 65), p['tok.w'].ref).add(p['pos.w'].ref);
    for (const block of ['blocks.0', 'blocks.1']) {
      x = x.ref.add(attention(p, `${block}.attn`, norm(p, `${block}.norm1`, x)));
      const up = linear(p, `${block}.up`, norm(p, `${block}.norm2`, x.ref));
      x = x.add(linear(p, `${block}.down`, nn.gelu(up, { approximate: false })));
    }
    return crossEntropy(np.matmul(norm(p, 'norm', x), p['head.w'].ref), labels, 65);
  },
};

/** The loss owns its parameters and disposes of them after use. */
const owned = loss => (p, batch) => {
  const value = loss(p, batch);
  tree.dispose(p);
  return value;
};

/** Adam as in PyTorch; `t` is the number of the step. */
function update(loss) {
  const differentiate = valueAndGrad(owned(loss));
  return jit((before, moments, squares, t, batch) => {
    const [value, g] = differentiate(tree.ref(before), batch);
    const first = np.power(0.9, t.ref);
    const second = np.power(0.999, t);
    const m = tree.map((m, g) => m.mul(0.9).add(g.ref.mul(0.1)), moments, g);
    const v = tree.map((v, g) => v.mul(0.999).add(np.square(g).mul(0.001)), squares, g);
    const rate = np.array(1e-3).div(np.array(1).sub(first));
    const scale = np.array(1).sub(second);
    const p = tree.map(
      (p, m, v) => p.sub(m.ref.mul(rate.ref).div(np.sqrt(v.ref.div(scale.ref)).add(1e-8))),
      before,
      m,
      v,
    );
    rate.dispose();
    scale.dispose();
    return [value, p, m, v];
  });
}

begin(async ({ model: name, backend }) => {
  await init(backend);
  defaultDevice(backend);
  const place = ([data, shape]) => np.array(data).reshape(shape);
  const placed = group =>
    Object.fromEntries(Object.entries(group).map(([key, value]) => [key, place(value)]));
  if (name === 'matmul') {
    const { a, b } = placed(await weightsOf(name));
    const multiply = jit((a, b) => np.matmul(a, b));
    return async () => {
      const c = multiply(a.ref, b.ref);
      await blockUntilReady(c);
      c.dispose();
      return 0;
    };
  }
  const zeros = p => tree.map(x => np.zeros(x.shape), p);
  const step = update(LOSSES[name]);
  const batch = placed(await batchOf(name));
  let p = placed(await weightsOf(name));
  let m = zeros(p);
  let v = zeros(p);
  let t = 0;
  let value;
  return async () => {
    [value, p, m, v] = step(p, m, v, np.array(++t), tree.ref(batch));
    return (await value.data())[0];
  };
});
