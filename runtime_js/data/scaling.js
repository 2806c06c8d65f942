// Columns to mean 0 and deviation 1. Sums are made in the order of rows, as in Python. Mirrors
// scaling.py.

import { forEachItem } from './pause.js';

/** @param {Float64Array} values */
export async function meanOf(values) {
  let sum = 0;
  await forEachItem(values, value => {
    sum += value;
  });
  return sum / values.length;
}

/** Of the population. @param {Float64Array} values @param {number} mean */
export async function deviationOf(values, mean) {
  let sum = 0;
  await forEachItem(values, value => {
    sum += (value - mean) * (value - mean);
  });
  return Math.sqrt(sum / values.length);
}

/** Whether training would be slow or fail with such a column. */
export function needsScaling(/** @type {number} */ mean, /** @type {number} */ deviation) {
  return Math.abs(mean) > 3 || deviation > 3 || deviation < 0.1;
}
