// What the page advises where data was refused: see data_problems.json.

/** @import { DataError } from '../data/problems.js' */

/** By problem; for others the runtime's own advice is said. @type {Record<string, string>} */
const ADVICE = {
  'mixed-decimals': '.',
  thousands: '.',
  'columns-left': '. Choose them in the table below.',
  'which-target': ' Choose it in the table below.',
  'no-value': '.',
  'names-in-columns': ': choose its columns below.',
  'names-in-target': ': choose another column below.',
  'unknown-character': '.',
  'class-unknown': '[training:.]',
  'few-rows':
    '[dim:: build the model with --set {dim}={count}, or bring more rows.][fixed:: change the model]',
};

/** What visitors read about an error of reading data. @param {DataError} error */
export function dataProblem(error) {
  const advice = ADVICE[error.problem];
  return advice === undefined ? error.message.replace('data: ', '') : error.worded(advice);
}
