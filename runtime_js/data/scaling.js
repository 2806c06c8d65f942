// Columns to mean 0 and deviation 1. Sums are made in the order of rows, as in Python. Mirrors
// preparation.py.

import { forEachIndex, forEachItem } from './pause.js';

/** @param {Float64Array} values */
export async function meanOf(values) {
  let sum = 0;
  await forEachItem(values, value => {
    sum += value;
  });
  return sum / values.length;
}

/** Of the population; of equal values it is 0, whatever their mean was rounded to. @param {Float64Array} values @param {number} mean */
export async function deviationOf(values, mean) {
  let sum = 0;
  let isSame = true;
  await forEachItem(values, value => {
    sum += (value - mean) * (value - mean);
    if (value !== values[0]) isSame = false;
  });
  return isSame ? 0 : Math.sqrt(sum / values.length);
}

/** Whether training would be slow or fail with such a column. */
export function needsScaling(/** @type {number} */ mean, /** @type {number} */ deviation) {
  return Math.abs(mean) > 3 || deviation > 3 || deviation < 0.1;
}

/**
 * Scales `rows` and `others`, which are scaled already, by mean and deviation of `rows` alone.
 * @param {any} rows @param {any} others @param {{mean: number[], deviation: number[]}} spec
 * @returns {Promise<any>} the new one
 */
export async function scaleAnew(rows, others, spec) {
  const size = spec.mean.length;
  /** @type {{mean: number[], deviation: number[]}} */
  const found = { mean: [], deviation: [] };
  for (let at = 0; at < size; at++) {
    const column = await scaledColumn(rows, at, size);
    const old = spec.deviation[at] || 1;
    const shift = await meanOf(column);
    const deviation = old * (await deviationOf(column, shift));
    const factor = old / (deviation || 1);
    for (const array of [rows, others])
      await forEachIndex(array.length / size, row => {
        array[row * size + at] = (array[row * size + at] - shift) * factor;
      });
    found.mean.push(spec.mean[at] + old * shift);
    found.deviation.push(deviation);
  }
  return { ...spec, ...found };
}

/** @param {any} rows @param {number} at @param {number} size of a row */
async function scaledColumn(rows, at, size) {
  const column = new Float64Array(rows.length / size);
  await forEachIndex(column.length, row => {
    column[row] = rows[row * size + at];
  });
  return column;
}
