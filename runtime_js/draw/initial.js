// Initial values of parameters and state; mirrors drawn.py. All arithmetic is float64 with
// `+ - * /` and `sqrt`, which IEEE 754 defines exactly, so that both give the same bits.

import { convert } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { inSlices } from '../core/pause.js';
import { elementBytes, elementCount, WORD_BYTES, wordCount } from '../core/plan.js';
import { randomWords } from '../core/threefry.js';
import { keyOf, namedWords } from './named_words.js';
import { normalQuantile } from './normal.js';

/** @import { Words } from '../core/arrays.js' */
/** @import { Init, Tensor } from '../core/plan.js' */
/**
 * @typedef {object} Draw of one tensor
 * @property {Record<string, number>} args
 * @property {number[]} shape
 * @property {number} seed
 * @property {string} name
 * @typedef {(probability: number) => number} Rule from a random number between 0 and 1 to a value
 */

// Where a truncated normal is cut, in standard deviations, and the probability below that.
const CUT = 2;
const BELOW_CUT = 0.022750131948179212;

/**
 * With pauses, because there may be millions.
 * @param {Tensor} tensor @param {number} seed @param {string} name @returns {Promise<Words>}
 */
export async function initialValues({ init = { kind: 'zeros' }, shape, dtype }, seed, name) {
  const size = elementCount(shape);
  const words = new Uint32Array(wordCount({ dtype, shape }));
  const found =
    init.kind === 'value'
      ? givenValues(init, size, name)
      : DRAWS[init.kind]({ args: init.args ?? {}, shape, seed, name });
  // Not -0, whose word is another.
  if (Object.is(found, 0)) return words;
  const valuesOf = slicesOf(found, seed, name);
  const isFine = await inSlices(size, (from, to) => {
    const first = (from * elementBytes(dtype)) / WORD_BYTES;
    const count = wordCount({ dtype, shape: [to - from] });
    const place = words.subarray(first, first + count);
    return convert(valuesOf(from, to), { dtype }, undefined, place) !== undefined;
  });
  return isFine ? words : fail('plan', name, `starts with no ${dtype}`);
}

/**
 * @param {number | Float64Array | Rule} found @param {number} seed @param {string} name
 * @returns {(from: number, to: number) => Float64Array}
 */
function slicesOf(found, seed, name) {
  if (typeof found === 'number') return (from, to) => new Float64Array(to - from).fill(found);
  if (typeof found !== 'function') return (from, to) => found.subarray(from, to);
  const key = keyOf(name);
  return (from, to) => {
    const random = randomWords(seed, key, to - from, 0, from);
    const values = new Float64Array(random.length);
    for (let i = 0; i < values.length; i++) values[i] = found(probabilityOf(random[i]));
    return values;
  };
}

/** @param {number} word */
function probabilityOf(word) {
  return (word + 0.5) * 2 ** -32;
}

/** @param {Init} init @param {number} size @param {string} name */
function givenValues({ values = [] }, size, name) {
  if (values.length === 1) return values[0];
  if (values.length !== size) fail('plan', name, `has ${values.length} initial values for ${size}`);
  return Float64Array.from(values);
}

/**
 * The value of each kind, or how one is made of a random number, or all of them. `external` tensors
 * stay zero until weights are given.
 * @type {Record<string, (draw: Draw) => number | Rule | Float64Array>}
 */
export const DRAWS = {
  zeros: () => 0,
  ones: () => 1,
  external: () => 0,
  uniform: ({ args }) => uniform(args.low ?? 0, args.high ?? 1),
  normal: ({ args }) => normal(args.mean ?? 0, args.std ?? 1),
  trunc_normal: truncatedNormal,
  kaiming_uniform: kaimingUniform,
  kaiming_normal: draw => normal(0, Math.sqrt(2 / fanOf(draw))),
  xavier_uniform: xavierUniform,
  orthogonal: orthogonal,
};

/** @param {number} low @param {number} high @returns {Rule} */
function uniform(low, high) {
  return probability => low + (high - low) * probability;
}

/** @param {number} mean @param {number} std @returns {Rule} */
function normal(mean, std) {
  return probability => mean + std * normalQuantile(probability);
}

/** Normal, conditioned on lying within two standard deviations of the mean. @param {Draw} draw */
function truncatedNormal({ args: { mean = 0, std = 1 } }) {
  return (/** @type {number} */ probability) => {
    const quantile = normalQuantile(BELOW_CUT + (1 - 2 * BELOW_CUT) * probability);
    return mean + std * Math.max(-CUT, Math.min(CUT, quantile));
  };
}

/** Within 1 / sqrt(fan), as PyTorch's Linear and Conv start. @param {Draw} draw */
function kaimingUniform(draw) {
  const bound = 1 / Math.sqrt(fanOf(draw));
  return uniform(-bound, bound);
}

/** Within gain * sqrt(6 / (fan_in + fan_out)). @param {Draw} draw */
function xavierUniform(draw) {
  const { args, name } = draw;
  const [fanIn, fanOut] = fansOf(draw.shape);
  const total = positive((args.fan_in ?? fanIn) + (args.fan_out ?? fanOut), name);
  const bound = (args.gain ?? 1) * Math.sqrt(6 / total);
  return uniform(-bound, bound);
}

/** @param {Draw} draw */
function fanOf({ args, shape, name }) {
  return positive(args.fan ?? fansOf(shape)[0], name);
}

/**
 * Inputs and outputs of one unit: the last axis holds outputs, the one before it inputs.
 * @param {number[]} shape
 */
function fansOf(shape) {
  const size = elementCount(shape);
  if (shape.length < 2) return [size, size];
  const window = elementCount(shape.slice(0, -2));
  return shape.slice(-2).map(count => window * count);
}

/** @param {number} fan @param {string} name */
function positive(fan, name) {
  return fan > 0 ? fan : fail('plan', name, `has no initial values for a fan of ${fan}`);
}

/** Rows (or columns, whichever are fewer) orthonormal, times `gain`. @param {Draw} draw */
function orthogonal(draw) {
  const random = namedWords(draw.seed, draw.name, elementCount(draw.shape));
  const matrix = Float64Array.from(random, word => normalQuantile(probabilityOf(word)));
  const rows = draw.shape[0] ?? 1;
  orthonormalize(matrix, rows, matrix.length / rows);
  const gain = draw.args.gain ?? 1;
  return matrix.map(value => value * gain);
}

/**
 * Modified Gram-Schmidt on the rows of a wide matrix, the columns of any other; sums are in index
 * order.
 * @param {Float64Array} matrix is changed @param {number} rows @param {number} cols
 */
function orthonormalize(matrix, rows, cols) {
  const isWide = rows < cols;
  const length = Math.max(rows, cols);
  const at = (/** @type {number} */ vector, /** @type {number} */ i) =>
    isWide ? vector * cols + i : i * cols + vector;
  const product = (/** @type {number} */ one, /** @type {number} */ other) => {
    let sum = 0;
    for (let i = 0; i < length; i++) sum += matrix[at(one, i)] * matrix[at(other, i)];
    return sum;
  };
  for (let vector = 0; vector < Math.min(rows, cols); vector++) {
    const norm = Math.sqrt(product(vector, vector));
    for (let i = 0; i < length; i++) matrix[at(vector, i)] /= norm;
    for (let later = vector + 1; later < Math.min(rows, cols); later++) {
      const along = product(vector, later);
      for (let i = 0; i < length; i++) matrix[at(later, i)] -= matrix[at(vector, i)] * along;
    }
  }
}
