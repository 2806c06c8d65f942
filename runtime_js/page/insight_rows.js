// What a model says of rows whose answers are known: predictions of the entry that predicts, beside
// the truth, and how much worse they are if the values of a column are exchanged between rows.

import { featureNames } from '../data/features.js';
import { plan } from './bundle.js';
import { arraysOf, rawNumber } from './examples.js';
import { averageOf, bestOf, errorsOf, exchanged } from './insight_numbers.js';
import { randomUnits } from './invented.js';
import {
  classNames,
  fieldNames,
  inputOf,
  isOneHot,
  outputOf,
  rowCount,
  shownNumber,
} from './ports.js';
import { learnedInput, others, page, rowInputs, trainer } from './state.js';

/** @import { Input, Port } from './ports.js' */
/** @import { Arrays } from './state.js' */
/**
 * @typedef {{entry: string, x: Input, y: Input, output: Port, classes: number}} Judged how the model
 *   is judged; `classes`: 0 for numbers
 * @typedef {{isHeldOut: boolean, rows: number, x: Float32Array, scores: ArrayLike<number>,
 *   truth: number[], predicted: number[]}} Found
 */

/** More rows take long. */
const MOST_JUDGED = 2000;
/** With more columns, exchanging each takes long. */
export const MOST_EXCHANGED = 40;

/** How the model can be judged; undefined where it does not tell classes or a number from numbers. @returns {Judged | undefined} */
export function judgedBy() {
  if (!trainer || !learnedInput || rowInputs.length !== 2) return;
  const y = inputOf(trainer, learnedInput);
  const x = inputOf(trainer, rowInputs.find(key => key !== learnedInput) ?? '');
  const classes = y.range?.low === 0 ? y.range.high + 1 : 0;
  const isNumber = y.isFloat && !isOneHot(y);
  if (!x.isFloat || y.size !== 1 || !(classes || isNumber)) return;
  for (const entry of others) {
    const output = answerOf(entry, x.key, classes || 1);
    if (output) return { entry, x, y, output, classes };
  }
}

/** The output with so many numbers for each row of the one input. @param {string} entry @param {string} input @param {number} size */
function answerOf(entry, input, size) {
  const { inputs, outputs, rows, writes } = plan.entries[entry];
  if (writes.length || `${Object.keys(inputs)}` !== input) return;
  return Object.keys(outputs)
    .filter(key => rows?.outputs?.[key] === 'rows')
    .map(key => outputOf(entry, key))
    .find(output => output.isFloat && output.size === size);
}

/** Predictions for the held-out rows, or without them for those it trains on. @param {Judged} judged @returns {Promise<Found | undefined>} */
export async function predictRows(judged) {
  const { data } = page;
  const arrays = data?.heldOut ?? arraysOf(data?.train);
  if (!arrays?.[judged.x.key] || data?.isInvented) return;
  const rows = Math.min(rowCount(trainer, arrays), MOST_JUDGED);
  const x = Float32Array.from(arrays[judged.x.key].subarray(0, rows * judged.x.size));
  const scores = await scoresOf(judged, x);
  const truth = Array.from({ length: rows }, (_, i) => truthOf(judged, arrays, i));
  const predicted = predictedOf(judged, scores);
  return { isHeldOut: Boolean(data?.heldOut), rows, x, scores, truth, predicted };
}

/** @param {Judged} judged @param {Float32Array} x rows as the model takes them */
async function scoresOf({ entry, x: { key }, output }, x) {
  /** @type {Arrays} */
  const outputs = await page.model.callPrepared(entry, { [key]: x });
  return outputs[output.key];
}

/** @param {Judged} judged @param {Arrays} arrays @param {number} row */
function truthOf({ y, classes }, arrays, row) {
  const value = Number(arrays[y.key][row]);
  return classes ? value : rawNumber(y, value, 0);
}

/** Classes, or numbers in the column's units. @param {Judged} judged @param {ArrayLike<number>} scores */
function predictedOf({ y, classes }, scores) {
  return classes ? bestOf(scores, classes) : Array.from(scores, value => rawNumber(y, value, 0));
}

/** The columns of the file, with the places of their numbers in a row. @param {Input} x @returns {{name: string, range: [number, number]}[]} */
export function columnsOf(x) {
  let start = 0;
  /** @type {{column: string}[]} */
  const sources = x.prepared?.sources ?? fieldNames(x).map(column => ({ column }));
  return sources.map(source => {
    const range = /** @type {[number, number]} */ ([start, start + featureNames(source).length]);
    start = range[1];
    return { name: source.column, range };
  });
}

/**
 * For each column how much worse predictions are without it: the share of rows that are right, or
 * the mean error, is compared with that of rows whose values of the column are exchanged.
 * @param {Judged} judged @param {Found} found @param {() => boolean} isOver
 */
export async function importanceOf(judged, found, isOver) {
  const before = worthOf(judged, found.truth, found.predicted);
  const order = shuffledRows(found.rows);
  const result = [];
  for (const { name, range } of columnsOf(judged.x)) {
    if (isOver()) return [];
    const x = exchanged(found.x, judged.x.size, range, order);
    const predicted = predictedOf(judged, await scoresOf(judged, x));
    result.push({ name, worse: before - worthOf(judged, found.truth, predicted) });
  }
  return result.sort((a, b) => b.worse - a.worse);
}

/** @param {Judged} judged @param {number[]} truth @param {number[]} predicted */
function worthOf({ classes }, truth, predicted) {
  if (classes) return averageOf(truth.map((id, i) => Number(id === predicted[i])));
  return -errorsOf(truth, predicted).absolute;
}

/** An order of rows that is the same each time. @param {number} count */
function shuffledRows(count) {
  const keys = randomUnits(1, 'importance', count);
  return Array.from({ length: count }, (_, row) => row).sort((a, b) => keys[a] - keys[b]);
}

/** The cells of a row as a person's file has them. @param {Judged} judged @param {Found} found @param {number} row */
export function cellsOf({ x }, found, row) {
  const numbers = Array.from({ length: x.size }, (_, i) =>
    rawNumber(x, found.x[row * x.size + i], i),
  );
  const sources = x.prepared?.sources;
  return columnsOf(x).map(({ range: [start, end] }, i) =>
    cellText(sources?.[i] ?? {}, numbers.slice(start, end)),
  );
}

/** @param {any} source @param {number[]} numbers */
function cellText({ names, parts, unit }, numbers) {
  if (names?.length === 2) return names[Math.round(numbers[0])];
  if (names) return names[numbers.indexOf(Math.max(...numbers))];
  if (parts) return partsText(parts, numbers);
  return unit ? `${shownNumber(numbers[0])} ${unit}` : shownNumber(numbers[0]);
}

/** A whole date, or the parts that are known. @param {string[]} parts @param {number[]} numbers */
function partsText(parts, numbers) {
  const whole = ['year', 'month', 'day'].map(part => Math.round(numbers[parts.indexOf(part)]));
  if (!whole.some(Number.isNaN)) return whole.map(number => `${number}`.padStart(2, '0')).join('-');
  return parts.map((part, i) => `${part} ${shownNumber(numbers[i])}`).join(', ');
}

/** @param {Judged} judged */
export const labelsOf = ({ classes }) => classNames(classes);
