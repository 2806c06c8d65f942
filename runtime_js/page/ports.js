// What inputs and outputs are, for one row: their sizes and kinds, the data's names for them, and
// words for people ("3 numbers", "a picture of 28 × 28").

import { CALLER_TYPES, rangeOf } from '../core/arrays.js';
import { elementCount, isFloat } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { plan } from './bundle.js';
import { page, trainer } from './state.js';

/** @import { Tensor } from '../core/plan.js' */
/** @import { Arrays } from './state.js' */
/**
 * @typedef {{layout: 'hw' | 'chw' | 'hwc', channels: number, height: number, width: number}} Picture
 * @typedef {object} Port an input or output
 * @property {string} entry
 * @property {string} key
 * @property {Tensor} tensor
 * @property {number[]} row the shape of one row
 * @property {number} size elements of a row
 * @property {boolean} isFloat
 * @property {Picture | undefined} picture if a row can be one
 * @typedef {object} InputFacts
 * @property {boolean} hasRows whether it has one row per example
 * @property {{low: number, high: number} | undefined} range of its integers
 * @property {boolean} isText whether its numbers are characters or tokens of the vocabulary
 * @property {any} prepared how the data feeds it: undefined if that is not known
 * @typedef {Port & InputFacts} Input
 */

/** Inputs with more numbers are taken from the data, not typed. */
export const MOST_FIELDS = 24;
/** Whether the vocabulary is a file of tokens, and what an id is of. */
export const hasTokens = typeof plan.model.vocab === 'object';
export const textUnit = hasTokens ? 'token' : 'character';

/** @param {string} entry @param {string} key @param {Tensor} tensor @param {boolean} hasRows */
function portOf(entry, key, tensor, hasRows) {
  const row = hasRows ? tensor.shape.slice(1) : tensor.shape;
  const size = elementCount(row);
  return { entry, key, tensor, row, size, isFloat: isFloat(tensor), picture: pictureOf(row) };
}

/** @param {string} entry @param {string} key @returns {Input} */
export function inputOf(entry, key) {
  const { inputs, rows, ranges } = plan.entries[entry];
  const hasRows = Boolean(rows?.inputs.includes(key));
  const declared = ownOf(ranges ?? {}, key);
  const range = declared && rangeOf(declared);
  const port = portOf(entry, key, plan.tensors[inputs[key]], hasRows);
  return { ...port, hasRows, range, isText: isTextRange(range), prepared: preparedInput(key) };
}
/** @param {string} entry */
export const inputsOf = entry =>
  entry ? Object.keys(plan.entries[entry].inputs).map(key => inputOf(entry, key)) : [];

/** An output may have a row for each row of the inputs, or one. @param {string} entry @param {string} key */
export function outputOf(entry, key) {
  const { outputs, rows } = plan.entries[entry];
  const tensor = plan.tensors[outputs[key]];
  const isCounted = rows && tensor.shape.length > 1 && tensor.shape[0] === rows.count;
  return portOf(
    entry,
    key,
    tensor,
    Boolean(rows?.outputs ? rows.outputs[key] === 'rows' : isCounted),
  );
}

/** @param {{low: number, high: number} | undefined} range */
function isTextRange(range) {
  const { vocab } = plan.model;
  if (!vocab || !range) return false;
  if (typeof vocab === 'string') return range.high === [...vocab].length - 1;
  // Tables of tokens are often larger than the vocabulary, so that their sizes are round.
  return range.low === 0 && range.high >= vocab.size - 1;
}

/** @param {number[]} row @returns {Picture | undefined} */
function pictureOf(row) {
  const isLarge = (/** @type {number} */ height, /** @type {number} */ width) =>
    height >= 4 && width >= 4;
  const [a, b, c] = row;
  if (row.length === 2 && isLarge(a, b)) return { layout: 'hw', channels: 1, height: a, width: b };
  if (row.length !== 3) return;
  if ([1, 3, 4].includes(a) && isLarge(b, c))
    return { layout: 'chw', channels: a, height: b, width: c };
  if ([1, 3, 4].includes(c) && isLarge(a, b))
    return { layout: 'hwc', channels: c, height: a, width: b };
}

/** How many rows arrays by input have. @param {string} entry @param {Arrays | undefined} arrays */
export function rowCount(entry, arrays) {
  const [key] = plan.entries[entry].rows?.inputs ?? [];
  return key && arrays?.[key] ? arrays[key].length / inputOf(entry, key).size : 1;
}

/** An array for an input. @param {Port} port @param {number} length @param {(i: number) => number} value */
export const arrayOf = ({ tensor }, length, value) =>
  CALLER_TYPES[tensor.dtype].from(Array.from({ length }, (_, i) => value(i)));

/** Equal rows that an entry takes: one, unless it mixes a fixed number. @param {string} entry */
export function timesOf(entry) {
  const { rows } = plan.entries[entry];
  return rows && !rows.outputs ? rows.count : 1;
}

export const parameterCount = () =>
  Object.values(plan.tensors)
    .filter(({ role }) => role === 'param')
    .reduce((sum, { shape }) => sum + elementCount(shape), 0);

/** How the data was prepared; null if it was not. */
export const preparation = () => page.data?.train?.preparation ?? page.model?.preparation ?? null;
/** @param {string} key */
const preparedInput = key => ownOf(preparation()?.inputs ?? {}, key);
/** Whether an input stands for one of some names, each of its numbers for one. @param {Input} input */
export const isOneHot = ({ prepared }) => prepared?.kind === 'one hot';

/** The names of its columns. @param {Input} input @returns {string[]} */
export const fieldNames = ({ key, size, prepared }) =>
  prepared?.columns ?? Array.from({ length: size }, (_, i) => (size > 1 ? `${key} ${i + 1}` : key));

/** Names of an input's classes, by default of the target's. @param {string} [key] @returns {string[] | undefined} */
export const preparedClasses = (key = preparation()?.target) => preparedInput(key ?? '')?.classes;

/** Names for `count` classes: those of the data, or numbers. @param {number} count @param {string} [key] */
export function classNames(count, key) {
  const named = preparedClasses(key) ?? [];
  return Array.from({ length: count }, (_, i) => named[i] ?? `${i}`);
}

/** Whether the model tells this many classes apart. @param {number} count */
export const isClassCount = count =>
  inputsOf(trainer).some(({ range, isText }) => range && !isText && range.high === count - 1);

/** The name of an output: that of the data's column if it predicts one number. @param {Port} output */
export function outputName({ entry, key, size, isFloat }) {
  const { target } = preparation() ?? {};
  const [column, ...more] = (target && preparedInput(target)?.columns) ?? [];
  const isOnly = Object.keys(plan.entries[entry].outputs).length === 1;
  return column && !more.length && size === 1 && isFloat && isOnly ? column : key;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const countOf = (count, one, many = `${one}s`) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

/** One row of an input. @param {Input} input */
export function inputWords(input) {
  const { row, size, isText, range, picture } = input;
  if (isText) return row.length ? `text of ${countOf(size, textUnit)}` : `a ${textUnit}`;
  if (isOneHot(input)) return `one of ${countOf(size, 'class', 'classes')}`;
  if (picture && (!range || picture.channels > 1))
    return `a ${picture.channels > 1 ? 'colour picture' : 'picture'} of ${picture.width} × ${picture.height}`;
  if (range && size === 1)
    return `one of ${countOf(range.high - range.low + 1, 'class', 'classes')}`;
  const kind = input.isFloat ? 'number' : 'whole number';
  return size === 1 ? `a ${kind}` : `${row.join(' × ')} ${kind}s`;
}

/** A number in as few digits as a person reads. @param {number} value */
export function shownNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  if (size >= 1e4) return Number(value.toPrecision(5)).toLocaleString('en');
  return `${+value.toPrecision(4)}`;
}
/** @param {number} share @param {number} [digits] */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
