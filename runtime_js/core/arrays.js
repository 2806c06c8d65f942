// Converts callers' arrays to the words a tensor has in memory, and back to typed arrays. For a
// wrong value these functions return undefined; check/callers.js then says what is wrong with it.

import { elementCount, isFloat, WORD_BYTES, wordCount } from './plan.js';
import { takeWords } from './spare_words.js';

/** @import { Dtype, Elements, Range, Tensor } from './plan.js' */
/**
 * @typedef {Uint32Array<ArrayBuffer>} Words one per element, or one per four elements of a byte
 * @typedef {Record<string, Words>} NamedWords
 * @typedef {(Float32Array | Int32Array | Uint32Array | Int8Array | Uint8Array) & {shape: number[]}} Values
 */

/**
 * What callers get, and how memory holds it. There is no array of booleans, and few browsers have
 * Float16Array.
 */
export const CALLER_TYPES = {
  f32: Float32Array,
  f16: Float32Array,
  i32: Int32Array,
  u32: Uint32Array,
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
};
/** @type {Partial<Record<Dtype, Range>>} */
export const INTEGER_RANGES = {
  i32: { low: -(2 ** 31), high: 2 ** 31 - 1 },
  u32: { low: 0, high: 2 ** 32 - 1 },
  i8: { low: -128, high: 127 },
  u8: { low: 0, high: 255 },
  bool: { low: 0, high: 1 },
};
const FLOAT_ARRAYS = ['Float16Array', 'Float32Array', 'Float64Array'];

/**
 * A tensor's words; undefined if type, shape or range are wrong.
 * @param {any} value @param {Tensor} tensor @param {Range | [number, number]} [allowed]
 */
export function toWords(value, tensor, allowed) {
  const list = listOf(value, tensor);
  if (list && hasShape(value, list, tensor))
    return convert(list, tensor, allowed, takeWords(wordCount(tensor)));
}

/** @param {any} value @param {ArrayLike<any>} list its elements @param {Tensor} tensor */
export function hasShape(value, list, { shape }) {
  return list.length === elementCount(shape) && `${value.shape ?? shape}` === `${shape}`;
}

/**
 * A list of numbers, or one number; undefined if it cannot have the tensor's type.
 * @param {any} value @param {Tensor} tensor @returns {ArrayLike<any> | undefined}
 */
export function listOf(value, tensor) {
  const list = typeof value === 'number' || typeof value === 'boolean' ? [value] : value;
  // Arrays and typed arrays have `map`, also those of another window, which `instanceof` denies.
  if (typeof list?.map !== 'function') return;
  const holdsFloats = FLOAT_ARRAYS.includes(list[Symbol.toStringTag]);
  if (isFloat(tensor) || !holdsFloats) return list;
}

/**
 * The words of a list of numbers; undefined if a value would be lost.
 * @param {ArrayLike<any>} list @param {Elements} elements @param {Range | [number, number]} [allowed]
 * @param {Words} [words] to be overwritten
 * @returns {Words | undefined}
 */
export function convert(list, { dtype, any_float }, allowed, words = newWords(list, dtype)) {
  // Behind the elements of one byte, the last word has zeros.
  words[words.length - 1] = 0;
  const elements = new CALLER_TYPES[dtype](words.buffer, words.byteOffset, list.length);
  copy(list, dtype, elements);
  const limits = INTEGER_RANGES[dtype];
  const isFine = limits
    ? areIntegers(list, rangeOf(allowed ?? limits))
    : any_float || areFinite(elements);
  if (isFine) return words;
}

/** @param {ArrayLike<any>} list @param {Dtype} dtype @returns {Words} */
function newWords({ length }, dtype) {
  return new Uint32Array(wordCount({ dtype, shape: [length] }));
}

/** @param {Uint8Array} bytes @returns {Words} the same bytes, with zeros up to a whole word */
export function wholeWords(bytes) {
  const words = new Uint32Array(Math.ceil(bytes.length / WORD_BYTES));
  new Uint8Array(words.buffer).set(bytes);
  return words;
}

/** Ten times as fast as `every`, which matters for a batch of images. @param {ArrayLike<number>} list */
export function areFinite(list) {
  for (let i = 0; i < list.length; i++) if (!Number.isFinite(list[i])) return false;
  return true;
}

/** @param {Range | [number, number]} range in either way that a plan writes it @returns {Range} */
export function rangeOf(range) {
  return Array.isArray(range) ? { low: range[0], high: range[1] } : range;
}

/** @param {ArrayLike<any>} list @param {Dtype} dtype @param {any} to the array of this type */
function copy(list, dtype, to) {
  if (dtype !== 'f16' && list instanceof CALLER_TYPES[dtype]) {
    to.set(list);
    return;
  }
  const stored = dtype === 'f16' ? nearestHalf : Number;
  for (let i = 0; i < list.length; i++) to[i] = stored(Number(list[i]));
}

/** @param {ArrayLike<any>} list @param {Range} range */
function areIntegers(list, { low, high, ignore }) {
  for (let i = 0; i < list.length; i++) {
    const number = Number(list[i]);
    const isInside = number >= low && number <= high;
    if (!Number.isInteger(number) || !(isInside || number === ignore)) return false;
  }
  return true;
}

/** The nearest half-precision number. @param {number} x */
function nearestHalf(x) {
  // The sum with a number so much larger keeps only eleven bits of x; halfway cases round to even.
  const large = 1.5 * 2 ** (42 + Math.max(-14, Math.floor(Math.log2(Math.abs(x)))));
  const half = x + large - large;
  // Zero keeps its sign; a number that is too large becomes infinite.
  return Math.abs(half) < 65520 ? half || 0 * x : x / 0;
}

/** @param {Words} words in memory of their own @param {Tensor} tensor @returns {Values} */
export function fromWords(words, { dtype, shape }) {
  const list = new CALLER_TYPES[dtype](words.buffer, 0, elementCount(shape));
  return Object.assign(list, { shape });
}
