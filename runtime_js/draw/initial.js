// Initial values of parameters and state; mirrors initial.py. All arithmetic is float64 with
// `+ - * /` and `sqrt`, which IEEE 754 defines exactly, so that both give the same bits.

import { convert } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { elementCount } from '../core/plan.js';
import { namedWords } from './named_words.js';
import { normalQuantile } from './normal.js';

/** @import { Words } from '../core/arrays.js' */
/** @import { Init, Tensor } from '../core/plan.js' */
/**
 * @typedef {object} Draw of one tensor
 * @property {Record<string, number>} args
 * @property {number[]} shape
 * @property {string} name
 * @property {(value: (probability: number) => number) => Float64Array} each of the random numbers
 *   between 0 and 1
 */

// Where a truncated normal is cut, in standard deviations, and the probability below that.
const CUT = 2;
const BELOW_CUT = 0.022750131948179212;

/** @param {Tensor} tensor @param {number} seed @param {string} name @returns {Words} */
export function initialValues({ init = { kind: 'zeros' }, shape, dtype }, seed, name) {
  const size = elementCount(shape);
  /** @type {Draw} */
  const draw = {
    args: init.args ?? {},
    shape,
    name,
    each: value =>
      Float64Array.from(namedWords(seed, name, size), word => value((word + 0.5) * 2 ** -32)),
  };
  const values = init.kind === 'value' ? givenValues(init, size, name) : DRAWS[init.kind](draw);
  return convert(values, dtype) ?? fail('plan', name, `starts with no ${dtype}`);
}

/** @param {Init} init @param {number} size @param {string} name */
function givenValues({ values = [] }, size, name) {
  if (values.length === 1) return new Float64Array(size).fill(values[0]);
  if (values.length !== size) fail('plan', name, `has ${values.length} initial values for ${size}`);
  return Float64Array.from(values);
}

/**
 * How the values of each kind are drawn. `external` tensors stay zero until weights are given.
 * @type {Record<string, (draw: Draw) => Float64Array>}
 */
export const DRAWS = {
  zeros: draw => constant(draw, 0),
  ones: draw => constant(draw, 1),
  external: draw => constant(draw, 0),
  uniform: draw => uniform(draw, draw.args.low ?? 0, draw.args.high ?? 1),
  normal: draw => normal(draw, draw.args.mean ?? 0, draw.args.std ?? 1),
  trunc_normal: truncatedNormal,
  kaiming_uniform: kaimingUniform,
  kaiming_normal: draw => normal(draw, 0, Math.sqrt(2 / fanOf(draw))),
  xavier_uniform: xavierUniform,
  orthogonal: orthogonal,
};

/** @param {Draw} draw @param {number} value */
function constant({ shape }, value) {
  return new Float64Array(elementCount(shape)).fill(value);
}

/** @param {Draw} draw @param {number} low @param {number} high */
function uniform({ each }, low, high) {
  return each(probability => low + (high - low) * probability);
}

/** @param {Draw} draw @param {number} mean @param {number} std */
function normal({ each }, mean, std) {
  return each(probability => mean + std * normalQuantile(probability));
}

/** Normal, conditioned on lying within two standard deviations of the mean. @param {Draw} draw */
function truncatedNormal({ args: { mean = 0, std = 1 }, each }) {
  return each(probability => {
    const quantile = normalQuantile(BELOW_CUT + (1 - 2 * BELOW_CUT) * probability);
    return mean + std * Math.max(-CUT, Math.min(CUT, quantile));
  });
}

/** Within 1 / sqrt(fan), as PyTorch's Linear and Conv start. @param {Draw} draw */
function kaimingUniform(draw) {
  const bound = 1 / Math.sqrt(fanOf(draw));
  return uniform(draw, -bound, bound);
}

/** Within gain * sqrt(6 / (fan_in + fan_out)). @param {Draw} draw */
function xavierUniform(draw) {
  const { args, name } = draw;
  const [fanIn, fanOut] = fansOf(draw.shape);
  const total = positive((args.fan_in ?? fanIn) + (args.fan_out ?? fanOut), name);
  const bound = (args.gain ?? 1) * Math.sqrt(6 / total);
  return uniform(draw, -bound, bound);
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
  const matrix = normal(draw, 0, 1);
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
