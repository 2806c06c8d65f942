// Predictions for many rows at once: lines as copied from a spreadsheet, read as data files are;
// results as a table.

import { readPasted } from '../data/pasted.js';
import { plan } from './bundle.js';
import { dataProblem } from './data_words.js';
import { $, h, put, show } from './elements.js';
import { areShares, oneText } from './outputs.js';
import {
  arrayOf,
  classNames,
  countOf,
  fieldNames,
  inputsOf,
  isClassCount,
  isOneHot,
  MOST_FIELDS,
  outputName,
  outputOf,
  percent,
  shownNumber,
  timesOf,
} from './ports.js';
import { page } from './state.js';

/** @import { DataError } from '../data/problems.js' */
/** @import { Input, Port } from './ports.js' */
/** @import { Arrays } from './state.js' */
/** @import { FeatureSource } from '../data/features.js' */
/** @typedef {{cells: (string | number)[], numbers: number[]}} Line a row as it was pasted, and for the model */

/** Rows of the table; more are counted. */
const MOST_LINES = 200;

/** Whether an entry takes any number of rows of numbers. @param {string} entry */
const takesManyRows = entry =>
  Boolean(plan.entries[entry].rows?.outputs) &&
  inputsOf(entry).every(
    input =>
      input.hasRows && !input.isText && !isOneHot(input) && sourcesOf(input).length <= MOST_FIELDS,
  );

/** The columns that feed an input. @param {Input} input @returns {FeatureSource[]} */
const sourcesOf = input => input.prepared?.sources ?? fieldNames(input).map(column => ({ column }));

/** @param {string} entry */
const namesOf = entry =>
  inputsOf(entry)
    .flatMap(sourcesOf)
    .map(({ column }) => column);

/** The part of the card for an entry. @param {string} entry */
export function drawManyRows(entry) {
  show({ many: takesManyRows(entry) });
  put('many-names', takesManyRows(entry) ? namesOf(entry).join(', ') : '');
  put('many-table', []);
}

/** @param {string} entry */
export async function predictManyRows(entry) {
  const lines = await pastedRows(entry);
  /** @type {Arrays} */
  const arrays = {};
  let start = 0;
  for (const input of inputsOf(entry)) {
    const end = start + input.size;
    const values = lines.flatMap(({ numbers }) => numbers.slice(start, end));
    arrays[input.key] = arrayOf(input, values.length, i => values[i]);
    start = end;
  }
  drawTable(entry, lines, await page.model.call(entry, arrays));
}

/** The text as rows of numbers; whether a comma is a decimal comma is asked if the text leaves it open. @param {string} entry @returns {Promise<Line[]>} */
async function pastedRows(entry) {
  const text = $('many-text').value;
  if (!text.trim()) throw Error('There are no rows.');
  try {
    return await readPasted(
      text,
      inputsOf(entry).flatMap(sourcesOf),
      $('many-decimal').value || undefined,
    );
  } catch (error) {
    const refused = /** @type {DataError} */ (error);
    if (refused.option === 'decimal') show({ 'many-decimal-choice': true });
    throw Error(dataProblem(refused));
  }
}

/** @param {string} entry @param {Line[]} lines @param {Arrays} arrays */
function drawTable(entry, lines, arrays) {
  const outputs = Object.keys(arrays)
    .filter(key => plan.entries[entry].rows?.outputs?.[key] === 'rows')
    .map(key => outputOf(entry, key));
  const names = [...namesOf(entry), ...outputs.map(outputName)];
  const more = lines.length - MOST_LINES;
  const rows = lines
    .slice(0, MOST_LINES)
    .map(({ cells }, i) =>
      h('tr', [
        ...cells.map(cell => h('td', typeof cell === 'number' ? shownNumber(cell) : cell)),
        ...outputs.map(output => resultCell(output, arrays[output.key], i)),
      ]),
    );
  const head = h(
    'thead',
    h(
      'tr',
      names.map(name => h('th', name)),
    ),
  );
  put('many-table', [
    h('table', [head, h('tbody', rows)]),
    more > 0 && h('p', `and ${countOf(more, 'more row', 'more rows')}`),
  ]);
}

/** Several pictures: a table with the name of each and what the model says. @param {Input} input @param {File[]} chosen @param {number[][]} rows */
export async function predictPictures(input, chosen, rows) {
  const { entry, key, size } = input;
  const { inputs, outputs } = plan.entries[entry];
  if (Object.keys(inputs).length > 1) throw Error('This entry takes one picture at a time.');
  const output = outputOf(entry, Object.keys(outputs)[0]);
  const lines = [];
  for (const [i, row] of rows.entries()) {
    const array = arrayOf(input, timesOf(entry) * size, at => row[at % size]);
    const arrays = await page.model.call(entry, { [key]: array });
    lines.push(h('tr', [h('td', chosen[i].name), resultCell(output, arrays[output.key], 0)]));
  }
  put('pictures-table', h('table', lines));
}

/** @param {Port} output @param {any} array @param {number} row */
function resultCell(output, array, row) {
  const { size } = output;
  const values = /** @type {number[]} */ (Array.from(array.slice(row * size, (row + 1) * size)));
  return h('td', resultText(output, values), { className: 'result' });
}
/** @param {Port} output @param {number[]} values */
function resultText(output, values) {
  if (values.length === 1) return oneText(output, values[0]).split(' = ').at(-1);
  if (!isClassCount(values.length)) return values.map(shownNumber).join(', ');
  const best = values.indexOf(Math.max(...values));
  const sure = areShares(values) ? ` (${percent(values[best], 0)})` : '';
  return `${classNames(values.length)[best]}${sure}`;
}
