// Rows of the data as inputs to try: what a person reads, so scaling of the data is undone.

import { ownOf } from '../core/records.js';
import { plan } from './bundle.js';
import { generated, randomUnits } from './invented.js';
import { classNames, inputOf, inputsOf, rowCount, shownNumber } from './ports.js';
import { page, trainer } from './state.js';

/** @import { Input } from './ports.js' */
/** @import { Arrays } from './state.js' */

/** Rows that are looked at to find how large the numbers of a column are. */
const MOST_SAMPLED = 2000;
/** The range of numbers of which nothing is known. */
const USUAL_RANGE = { low: -3, high: 3 };

/** @param {any} data @returns {Arrays | undefined} */
export const arraysOf = data => data?.arrays ?? data ?? undefined;

/** A number of a column as it is in a person's file. @param {Input} input @param {number} value @param {number} i */
export function rawNumber({ prepared }, value, i) {
  const { mean, deviation } = prepared ?? {};
  return mean ? value * (deviation[i % mean.length] || 1) + mean[i % mean.length] : value;
}

/** The rows that the data has for an input of an entry, if it has. @param {Input} input */
export function rowsInData({ key, row }) {
  const list = arraysOf(page.data?.train)?.[key];
  if (!list || !trainer) return;
  const trained = inputOf(trainer, key);
  return trained.hasRows && `${row}` === `${trained.row}` ? list : undefined;
}

/**
 * One row by input, from the data or generated; `target` is what the data says it belongs to,
 * undefined if that is not known.
 * @param {string} entry @param {number} seed
 */
export function exampleOf(entry, seed) {
  const inputs = inputsOf(entry);
  const arrays = inputs.some(rowsInData)
    ? (arraysOf(page.data?.heldOut) ?? arraysOf(page.data?.train))
    : undefined;
  const at = arrays ? Math.floor(randomUnits(seed, 'row', 1)[0] * rowCount(trainer, arrays)) : 0;
  const invented = generated(entry, seed, 1);
  const rows = inputs.map(input => {
    const [list, row] =
      arrays && rowsInData(input) ? [arrays[input.key], at] : [invented[input.key], 0];
    const numbers = Array.from(list.slice(row * input.size, (row + 1) * input.size));
    return [input.key, numbers.map((value, i) => rawNumber(input, value, i))];
  });
  return { rows: Object.fromEntries(rows), target: arrays && targetAt(entry, arrays, at) };
}

/**
 * What the data says about a row: the one number of an input that the entry does not take.
 * @param {string} entry @param {Arrays} arrays @param {number} row
 */
function targetAt(entry, arrays, row) {
  const [input, ...more] = inputsOf(trainer).filter(
    ({ key, hasRows, size }) => hasRows && size === 1 && !ownOf(plan.entries[entry].inputs, key),
  );
  if (!input || more.length) return;
  const value = arrays[input.key][row];
  if (input.range) return classNames(input.range.high + 1)[value];
  const name = input.prepared?.columns?.[0] ?? input.key;
  return `${name} = ${shownNumber(rawNumber(input, value, 0))}`;
}

/** The least and largest number in a column of an input: position `i` of its rows. @param {Input} input @param {number} i */
export function columnRange(input, i) {
  let { low, high } = USUAL_RANGE;
  const list = rowsInData(input);
  if (list) {
    [low, high] = [Infinity, -Infinity];
    const rows = list.length / input.size;
    for (let row = 0; row < rows; row += Math.ceil(rows / MOST_SAMPLED)) {
      low = Math.min(low, list[row * input.size + i]);
      high = Math.max(high, list[row * input.size + i]);
    }
    if (!(low < high)) [low, high] = [low - 1, low + 1];
  }
  return { low: rawNumber(input, low, i), high: rawNumber(input, high, i) };
}
