// Loaded when values are drawn from a seed: first values, as Python draws them to the bit, because they use only the
// arithmetic that IEEE 754 fixes.

import { convert, fail, ownOf, product, randomWords } from '../wgcc.js';
import { crc32, encode } from './files.js';

/** @import { First, Named, Tensor, Tensors, Words } from '../wgcc.js' */

/** Words that depend on seed, name and step alone. @param {number} seed @param {string} name @param {number} count @param {number} [step] */
export const namedWords = (seed, name, count, step) => randomWords(seed, crc32(encode(name)), count, step);

const SEED = 'rng/seed';

/**
 * With a seed, all that is random is drawn from it; given weights stand in any case. Without, what is in no file is drawn
 * from the seed that the bundle was built with.
 * @param {Tensors} lasting @param {First} first the bundle's own values @param {number | null} [seed] @param {Named} [given]
 * @param {number} [built]
 */
export function firstValues(lasting, { whole, own = whole }, seed, given, built) {
  if (seed != null && seed >>> 0 !== seed) fail('range', 'seed', `is a whole number from 0 to 4294967295, not ${seed}`);
  /** @type {Named} */
  const found = Object.create(null);
  for (const key in lasting) {
    const kind = lasting[key].init?.kind,
      old = ownOf(given, key) ?? (seed == null || kind == 'external' ? ownOf(own, key) : null);
    if (old) found[key] = old;
    else if (kind != 'copy')
      found[key] = initialValues(lasting[key], seed ?? built ?? lasting[SEED]?.init?.values?.[0] ?? 0, key);
  }
  if (seed != null && found[SEED] && !ownOf(given, SEED)) found[SEED] = Uint32Array.of(seed);
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
