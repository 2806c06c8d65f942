// Invented data, for a model of which only the inputs' types are known.

import { INTEGER_RANGES } from '../core/arrays.js';
import { elementCount } from '../core/plan.js';
import { namedWords } from '../draw/named_words.js';
import { arrayOf, inputsOf } from './ports.js';

/** @import { Input } from './ports.js' */

/** The range of integers for inputs without a range in the plan. */
const FEW = { low: 0, high: 3 };
/** The seed of the functions from the hidden point to the inputs: data of all seeds share them. */
const FUNCTION_SEED = 7;

/** Numbers between 0 and 1. @param {number} seed @param {string} name @param {number} count */
export const randomUnits = (seed, name, count) =>
  Array.from(namedWords(seed, name, count), word => word / 2 ** 32);

/**
 * Rows in which every input is a smooth function of a hidden point, so that each can be learned
 * from the others. The first float input is the point itself: on a line, or in a plane if it fits.
 * @param {string} entry @param {number} seed @param {number} times
 */
export function generated(entry, seed, times) {
  const inputs = inputsOf(entry);
  const batch = inputs.find(({ tensor }) => tensor.shape.length)?.tensor.shape[0] ?? 1;
  const shown = inputs.find(({ isFloat, tensor }) => isFloat && tensor.shape[0] === batch);
  const shape = shown?.tensor.shape ?? [];
  const isPlane = shape.length > 1 && elementCount(shape) > batch;
  const points = hiddenPoints(seed, batch * times, isPlane ? 2 : 1);
  return Object.fromEntries(
    inputs.map(input => {
      const rows = input.tensor.shape[0] === batch ? batch * times : 1;
      const rowSize = elementCount(input.tensor.shape) / (rows > 1 ? batch : 1);
      const element = elementOf(input, rowSize, shown);
      const list = arrayOf(input, rows * rowSize, i => {
        const row = Math.floor(i / rowSize);
        return element(points[row], i % rowSize, row);
      });
      return [input.key, list];
    }),
  );
}

/** @param {number} seed @param {number} count @param {number} depth */
function hiddenPoints(seed, count, depth) {
  const numbers = randomUnits(seed, 'hidden', count * depth).map(unit => 2 * unit - 1);
  return Array.from({ length: count }, (_, i) => numbers.slice(i * depth, (i + 1) * depth));
}

/**
 * How an input's elements depend on the hidden point, their position in the row, and the row.
 * @param {Input} input @param {number} rowSize @param {Input | undefined} shown the point itself
 * @returns {(point: number[], i: number, row: number) => number}
 */
function elementOf(input, rowSize, shown) {
  const { key, tensor, isFloat } = input;
  const { low, high } = integersOf(input);
  if (!tensor.shape.length) return () => settingOf(input, low);
  const wave = waveOf(key, rowSize);
  if (key === shown?.key) return (point, i) => (i < point.length ? 3 * point[i] : wave(point, i));
  if (isFloat) return wave;
  const count = high - low + 1;
  // If there are only rows of integers, each row counts up, so that the next number is predictable.
  if (!shown && rowSize > 3 && tensor.dtype !== 'u8')
    return ([start], i, row) =>
      low + ((Math.floor((start + 1) * 50) + i * (1 + (row % 2))) % count);
  return (point, i) => low + Math.min(count - 1, Math.floor(((wave(point, i) + 1) / 2) * count));
}

/** One number for all rows, such as a learning rate. @param {Input} input @param {number} low */
export function settingOf({ key, isFloat }, low) {
  if (!isFloat) return low;
  return /lr|rate/.test(key) ? 0.001 : 1;
}

/**
 * A smooth function of the point between -1 and 1, a different one for each position in a row.
 * @param {string} name @param {number} rowSize @returns {(point: number[], i: number) => number}
 */
function waveOf(name, rowSize) {
  const units = randomUnits(FUNCTION_SEED, name, 3 * rowSize);
  return ([a, b], i) => {
    const [first, second, phase] = units.slice(3 * i, 3 * i + 3);
    const along = 3 * (first + 0.3) * a;
    return Math.sin(along + (b === undefined ? 0 : 3 * (second - 0.5) * b) + 6 * phase);
  };
}

/** @param {Input} input */
function integersOf({ tensor: { dtype }, range }) {
  if (range) return range;
  const isSmall = dtype === 'i8' || dtype === 'u8' || dtype === 'bool';
  return (isSmall && INTEGER_RANGES[dtype]) || FEW;
}
