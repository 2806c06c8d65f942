// What pages need rarely, loaded when first used: first values drawn from a seed, batches from an iterable, the
// self-test, where a NaN came from, times per kernel. First values use only the arithmetic that IEEE 754 fixes, so that
// they are Python's to the bit.

import { bytesOf, convert, fail, isFloat, isLasting, product, randomWords } from './wgcc.js';
import { crc32, encode } from './files.js';

/** @import { Command, First, Inside, Named, Plan, Tensor, Tensors, Values, Words } from './wgcc.js' */

/** Words that depend on seed, name and step alone. @param {number} seed @param {string} name @param {number} count @param {number} [step] */
export const namedWords = (seed, name, count, step) => randomWords(seed, crc32(encode(name)), count, step);

// ---- first values

const SEED = 'rng/seed';

/**
 * With a seed, all that is random is drawn from it; given weights stand in any case.
 * @param {Tensors} lasting @param {First} first the bundle's own values @param {number | null} [seed] @param {Named} [given]
 */
export function firstValues(lasting, { whole, own = whole }, seed, given = {}) {
  /** @type {Named} */
  const found = {};
  for (const key in lasting) {
    const kind = lasting[key].init?.kind,
      old = given[key] ?? (seed == null || kind == 'external' ? own?.[key] : null);
    if (old) found[key] = old;
    else if (kind != 'copy')
      found[key] = initialValues(lasting[key], seed ?? lasting[SEED]?.init?.values?.[0] ?? 0, key);
  }
  if (seed != null && found[SEED] && !given[SEED]) found[SEED] = Uint32Array.of(seed);
  for (const key in lasting) found[key] ??= found[lasting[key].init?.of ?? ''];
  return found;
}

/**
 * The first values of a tensor, as words.
 * @param {Tensor} tensor @param {number} seed @param {string} name @returns {Words}
 */
export function initialValues({ init = { kind: 'zeros' }, shape, dtype }, seed, name) {
  const { kind, values = [], args = {} } = init,
    size = product(shape),
    window = product(shape.slice(0, -2));
  const [fanIn, fanOut] = shape.length < 2 ? [size, size] : shape.slice(-2).map(n => window * n);
  const fan = args.fan ?? fanIn,
    total = (args.fan_in ?? fanIn) + (args.fan_out ?? fanOut),
    { low = 0, high = 1, mean = 0, std = 1, gain = 1 } = args;
  if (!(fan > 0 && total > 0)) fail('plan', name, `has no initial values for a fan of ${fan}`);
  if (kind == 'value' && values.length != 1 && values.length != size)
    fail('plan', name, `has ${values.length} initial values for ${size}`);
  const draw = (/** @type {(p: number) => number} */ f) =>
    Float64Array.from(namedWords(seed, name, size), w => f((w + 0.5) * 2 ** -32));
  const uniform = (/** @type {number} */ a, /** @type {number} */ b) => draw(p => a + (b - a) * p);
  const normal = (/** @type {number} */ m, /** @type {number} */ s) => draw(p => m + s * quantile(p));
  const cut = 0.022750131948179212,
    bound = 1 / Math.sqrt(fan),
    xavier = gain * Math.sqrt(6 / total);
  /** @type {Record<string, () => Float64Array>} */
  const kinds = {
    value: () => new Float64Array(size).map((_, i) => values[values.length == 1 ? 0 : i]),
    ones: () => new Float64Array(size).fill(1),
    uniform: () => uniform(low, high),
    normal: () => normal(mean, std),
    // Within two standard deviations, below which lies the probability `cut`.
    trunc_normal: () => draw(p => mean + std * Math.max(-2, Math.min(2, quantile(cut + (1 - 2 * cut) * p)))),
    kaiming_uniform: () => uniform(-bound, bound),
    kaiming_normal: () => normal(0, Math.sqrt(2 / fan)),
    xavier_uniform: () => uniform(-xavier, xavier),
    orthogonal: () => orthogonal(normal(0, 1), shape[0] ?? 1).map(x => x * gain),
  };
  return convert(kinds[kind]?.() ?? new Float64Array(size), dtype) ?? fail('plan', name, `starts with no ${dtype}`);
}

/** Rows (or columns, whichever are fewer) made orthonormal. @param {Float64Array} matrix @param {number} rows */
function orthogonal(matrix, rows) {
  const cols = matrix.length / rows,
    wide = rows < cols,
    n = wide ? rows : cols,
    count = wide ? cols : rows;
  const at = (/** @type {number} */ i, /** @type {number} */ j) => (wide ? j * cols + i : i * cols + j);
  // Modified Gram-Schmidt; sums run in index order.
  for (let j = 0; j < n; j++) {
    for (let k = j; k < n; k++) {
      let sum = 0;
      for (let i = 0; i < count; i++) sum += matrix[at(i, j)] * matrix[at(i, k)];
      const length = Math.sqrt(sum);
      for (let i = 0; i < count; i++) {
        if (k == j) matrix[at(i, j)] /= length;
        else matrix[at(i, k)] -= matrix[at(i, j)] * sum;
      }
    }
  }
  return matrix;
}


// Wichura's rational approximations of the normal quantile (AS 241): numerator, denominator, from the constant up.
const CENTRE = [
  [
    3.3871328727963666, 133.14166789178438, 1971.5909503065514, 13731.69376550946, 45921.95393154987, 67265.7709270087,
    33430.57558358813, 2509.0809287301227,
  ],
  [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271,
    28729.085735721943, 5226.495278852854,
  ],
];
const NEAR = [
  [
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
    0.2417807251774506, 0.022723844989269184, 7.745450142783414e-4,
  ],
  [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457,
    5.475938084995345e-4, 1.0507500716444169e-9,
  ],
];
const FAR = [
  [
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
    0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
  ],
  [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 7.868691311456133e-4, 1.8463183175100548e-5,
    1.421511758316446e-7, 2.0442631033899397e-15,
  ],
];

/** @param {number[]} coefficients @param {number} x */
const polynomial = (coefficients, x) => coefficients.reduceRight((sum, c) => sum * x + c);
/** @param {number[][]} pair @param {number} x */
const ratio = ([above, below], x) => polynomial(above, x) / polynomial(below, x);
const ATANH = Array.from({ length: 12 }, (_, k) => 1 / (2 * k + 1));

/** Library logarithms differ in their last bits. @param {number} m */
function naturalLog(m) {
  let e = 0;
  while (m < 0.5) ((m *= 2), e--);
  if (m < 0.7071067811865476) ((m *= 2), e--);
  const s = (m - 1) / (m + 1);
  return e * 0.6931471805599453 + 2 * s * polynomial(ATANH, s * s);
}

/** x with P(X < x) = p for a standard normal X. @param {number} p */
function quantile(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) return q * ratio(CENTRE, 0.180625 - Math.min(q * q, 0.180625));
  const r = Math.sqrt(-naturalLog(Math.min(p, 1 - p))),
    tail = r <= 5 ? ratio(NEAR, r - 1.6) : ratio(FAR, r - 5);
  return q < 0 ? -tail : tail;
}

// ---- batches from an iterable

/**
 * Started over at its end if it can be; what was taken before training stopped is skipped.
 * @param {string} key @param {any} data @param {boolean} cycle @param {number} position
 */
export function batchesOf(key, data, cycle, position) {
  const begin = () => (data[Symbol.asyncIterator] ?? data[Symbol.iterator]).call(data);
  let skip = position,
    iterator = begin();
  const again = cycle && iterator != data;
  return async () => {
    for (;;) {
      let item = await iterator.next();
      if (item.done && again) item = await (iterator = begin()).next();
      if (item.done && skip > 0) fail('data', key, `ended before batch ${position}, where training is to go on`);
      if (item.done || skip-- <= 0) return item.value;
    }
  };
}

// ---- the self-test that every bundle holds

/**
 * How far each output is off, relative to 1 + |expected|. The model is reset before and after it.
 * @param {any} model @returns {Promise<{entry: string, output: string, error: number, tolerance: number}[]>}
 */
export async function selftest(model) {
  const { plan } = model,
    { seed, entries } = plan.selftest ?? { entries: {} },
    results = [];
  for (const entry in entries) {
    const { inputs, outputs, tolerance, changes } = entries[entry],
      /** @type {Record<string, number>} */ worst = {};
    await model.reset(undefined, { own: true });
    const before = changes && (await lasting(model));
    for (const [step, expected] of outputs.entries()) {
      /** @type {any} */
      const batch = {};
      for (const port in inputs) batch[port] = drawn(plan, plan.entries[entry].inputs[port], inputs[port], seed, step);
      const found = await model.call(entry, batch);
      for (const port in expected) worst[port] = Math.max(worst[port] ?? 0, off(found[port], expected[port]));
    }
    for (const output in worst) results.push({ entry, output, error: worst[output], tolerance });
    if (changes) {
      const after = await lasting(model),
        errors = Object.entries(changes.tensors).map(([name, expected]) => ({
          entry,
          output: `change of ${name}`,
          error: changeError(before[name], after[name], expected),
          tolerance: changes.tolerance,
        }));
      results.push(...errors.sort((a, b) => b.error - a.error).slice(0, 1));
    }
  }
  await model.reset();
  return results;
}

/** @param {any} model @returns {Promise<any>} */
const lasting = async model => ({ ...(await model.params()), ...(await model.state()) });

/**
 * How far the change of a tensor is off, relative to its size: mean, mean magnitude, and elements from first to last.
 * @param {ArrayLike<any>} before @param {ArrayLike<any>} after @param {any} expected
 */
function changeError(before, after, { mean, size, at, scale }) {
  const change = Array.from(after, (value, i) => value - before[i]),
    count = change.length,
    place = (/** @type {number} */ k) => Math.floor((k * (count - 1)) / Math.max(1, at.length - 1));
  const errors = [
    change.reduce((a, b) => a + b, 0) / count - mean,
    change.reduce((a, b) => a + Math.abs(b), 0) / count - size,
    ...at.map((/** @type {number} */ wanted, /** @type {number} */ k) => change[place(k)] - wanted),
  ].map(error => Math.abs(error) / scale);
  return errors.some(Number.isNaN) ? Number.MAX_VALUE : Math.max(...errors);
}

/** Refuses a model whose kernels compute something else. @param {any} model */
export async function verify(model) {
  const bad = (await selftest(model)).find(({ error, tolerance }) => !(error <= tolerance));
  if (bad)
    fail('selftest', `${bad.entry}.${bad.output}`, `is off by ${bad.error}, more than ${bad.tolerance}, on this GPU`);
}

/**
 * The input that the compiler drew, as wgcc_runtime/drawn.py does.
 * @param {Plan} plan @param {string} id @param {{kind: string, low: number, high: number}} draw @param {number} seed
 * @param {number} step
 */
function drawn({ tensors }, id, { kind, low, high }, seed, step) {
  const words = namedWords(seed, id, product(tensors[id].shape), step);
  return kind == 'uniform'
    ? Float32Array.from(words, word => low + (word >>> 8) * 2 ** -24 * (high - low))
    : Array.from(words, word => low + (word % (high - low + 1)));
}

/**
 * Sums are judged against the sum of magnitudes, because terms of both signs cancel.
 * @param {Values} values @param {{sum: number, abs: number, first: number[]}} expected
 */
function off(values, { sum, abs, first }) {
  const list = Array.from(values),
    total = list.reduce((a, b) => a + b, 0),
    size = list.reduce((a, b) => a + Math.abs(b), 0);
  const errors = [
    Math.abs(total - sum) / (1 + abs),
    Math.abs(size - abs) / (1 + abs),
    ...first.map((wanted, i) => Math.abs(list[i] - wanted) / (1 + Math.abs(wanted))),
  ];
  // NaN compares as smaller than everything, which would pass; JSON has no infinity.
  return errors.some(Number.isNaN) ? Number.MAX_VALUE : Math.max(...errors);
}

// ---- where a NaN came from

/**
 * After a submit that made a NaN and was undone: makes its calls one by one, and says which of them does it.
 * @param {Inside} inside @param {string} key @param {Named[]} batches @param {any[]} saved @param {string} [output]
 * @param {(n: number) => void} [stands]
 */
export async function undo(inside, key, batches, saved, output, stands) {
  let where = '; there was no memory to undo the step: restore the last checkpoint';
  if (saved[0] && batches.length > 1) {
    for (const batch of batches) {
      await inside.run(key, [batch], output ? [output] : []);
      stands?.(1);
    }
    // All went well now; whoever asked for them counts them all.
    return stands?.(-batches.length);
  }
  if (saved[0]) {
    where = `${await blame(inside, key)}; the model is as it was before that step`;
    await inside.back(saved);
  }
  const step = (inside.model.progress.steps[key] ?? 0) + batches.length;
  fail('nan', key, `step ${step}: ${output ? `\`${output}\`` : 'a parameter or state'} is not finite${where}`);
}

/**
 * Runs an entry kernel by kernel, on the inputs that are in place; names the first that writes a NaN or infinity.
 * @param {Inside} inside @param {string} key
 */
async function blame({ model, submit, pass, read, dispatchesOf, now }, key) {
  const { plan } = model,
    { buffers, commands } = now(),
    { tensors, entries, kernels } = /** @type {Plan} */ (plan),
    outputs = Object.values(entries[key].outputs),
    named = Object.keys(tensors).filter(id => isLasting(tensors[id]) || outputs.includes(id));
  await submit(4, encoder =>
    plan.buffers.forEach((/** @type {any} */ { role }, /** @type {number} */ i) => {
      if (/temp|grads|output/.test(role)) encoder.clearBuffer(buffers[i]);
    }),
  );
  for (const id of [...Object.keys(tensors).filter(id => isLasting(tensors[id])), ...Object.values(entries[key].inputs)]) {
    const { buffer, offset } = tensors[id];
    if (
      isFloat(tensors[id]) &&
      (await read(buffer, offset, bytesOf(tensors[id]))).some(word => (~word & 0x7f800000) == 0)
    )
      return `; \`${id}\` was not finite before the step`;
  }
  for (const [i, { kernel, bindings, label, at }] of dispatchesOf(key).entries()) {
    await submit(4, encoder => pass(encoder, [commands[key][0][i]]));
    for (const [j, { buffer, offset, size }] of bindings.entries()) {
      if (kernels[kernel].access[j] == 'read') continue;
      // Infinities, and the NaNs that arithmetic makes; other patterns may be small negative integers.
      const place = (await read(buffer, offset, size)).findIndex(word => (word & 0x7fbfffff) == 0x7f800000) * 4 + offset;
      if (place < offset) continue;
      const id = named.find(id => {
        const tensor = tensors[id];
        return tensor.buffer == buffer && place >= tensor.offset && place < tensor.offset + bytesOf(tensor);
      });
      return `; it first appears in \`${id ?? label}\` (kernel ${kernels[kernel].name}, ${at})`;
    }
  }
  return '';
}

// ---- times

/**
 * Median milliseconds of each kernel of an entry, by GPU timestamps where the adapter has them.
 * @param {Inside} inside @param {string} [key] @param {number} [repeat]
 */
export async function profile(inside, key = 'train', repeat = 5) {
  const { model, dispatchesOf, readAll, writeAll, now } = inside,
    { plan, device } = model;
  if (!Object.hasOwn(plan.entries, key)) fail('name', key, `is no entry; there are: ${Object.keys(plan.entries)}`);
  const { words } = await readAll(() => true),
    isStamped = device.features.has('timestamp-query'),
    ms = await (isStamped ? byTimestamps : bySubmits)(inside, now().commands[key][0], repeat);
  await writeAll(words);
  const rows = dispatchesOf(key).map(({ kernel, label = '', at = '' }, i) => ({
    kernel: plan.kernels[kernel].name,
    label,
    at,
    ms: ms[i],
  }));
  return { entry: key, method: isStamped ? 'timestamps' : 'submits', rows };
}

/** @param {Inside} inside @param {Command[]} commands @param {number} repeat */
async function byTimestamps({ model: { device }, submit, pass }, commands, repeat) {
  const count = 2 * commands.length,
    querySet = device.createQuerySet({ type: 'timestamp', count }),
    resolved = device.createBuffer({ size: 8 * count, usage: 0x204 }), // QUERY_RESOLVE | COPY_SRC
    runs = /** @type {BigUint64Array[]} */ ([]);
  // The first run compiles on some adapters, so it is not counted.
  for (let i = 0; i <= repeat; i++) {
    const words = await submit(8 * count, (encoder, to) => {
      commands.forEach((command, j) =>
        pass(encoder, [command], {
          timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * j, endOfPassWriteIndex: 2 * j + 1 },
        }),
      );
      encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, to, 0, 8 * count);
    });
    runs.push(new BigUint64Array(words.buffer));
  }
  resolved.destroy();
  querySet.destroy();
  return commands.map((_, j) => median(runs.slice(1).map(ticks => Number(ticks[2 * j + 1] - ticks[2 * j]) / 1e6)));
}

/** One submit per kernel, less an empty submit. @param {Inside} inside @param {Command[]} commands @param {number} repeat */
async function bySubmits({ submit, pass }, commands, repeat) {
  const time = async (/** @type {Command[]} */ list) => {
    const all = [];
    for (let i = 0; i <= repeat; i++) {
      const start = performance.now();
      await submit(4, encoder => pass(encoder, list));
      all.push(performance.now() - start);
    }
    return median(all.slice(1));
  };
  const nothing = await time([]),
    found = [];
  for (const command of commands) found.push(Math.max(0, (await time([command])) - nothing));
  return found;
}

/** @param {number[]} list */
const median = list => list.sort((a, b) => a - b)[list.length >> 1];
