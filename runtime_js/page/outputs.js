// What an entry returned for one row: a number, a class, bars, a picture, text or a curve. For models
// of one number that give one number: the curve they have learned, over the data.

import { plan } from './bundle.js';
import { $, h, put } from './elements.js';
import { arraysOf, columnRange, rawNumber } from './examples.js';
import { textOfIds } from './input_text.js';
import { pixelsOfRow } from './picture_pixels.js';
import { plot } from './plot.js';
import {
  classNames,
  inputOf,
  inputsOf,
  isClassCount,
  outputName,
  outputOf,
  percent,
  preparedClasses,
  shownNumber,
} from './ports.js';
import { page, trainer } from './state.js';

/** @import { Child } from './elements.js' */
/** @import { Point } from './plot.js' */
/** @import { Input, Picture, Port } from './ports.js' */
/** @import { Arrays } from './state.js' */

/** A list up to this length is shown as bars. */
const MOST_BARS = 16;
const CURVE_POINTS = 200;
const MOST_DOTS = 400;

/** The first row of each output. @param {string} entry @param {Arrays} arrays */
export function drawOutputs(entry, arrays) {
  const keys = Object.keys(arrays);
  /** @type {Act[]} */
  const later = [];
  const boxes = keys.map(key => {
    const output = outputOf(entry, key);
    const values = Array.from(arrays[key].slice(0, output.size));
    const shown = outputElements(output, values, later);
    return h('div', [keys.length > 1 && h('h3', key), ...shown], { className: 'output' });
  });
  put('outputs', boxes);
  // A curve is as wide as its place in the page.
  for (const act of later) act();
}
/** @import { Act } from './state.js' */

/** @param {Port} output @param {number[]} values @param {Act[]} later what is drawn in the page @returns {Child[]} */
function outputElements(output, values, later) {
  const { key, size, picture } = output;
  if (size === 1) return [h('p', oneText(output, values[0]), { className: 'answer' })];
  if (isClassCount(size)) return classElements(values);
  if (isTextOutput(output)) return [h('p', textOfIds(values), { className: 'written' })];
  if (picture) return [pictureElement(values, picture)];
  if (size <= MOST_BARS) return [barsElement(values, values.length)];
  const label = `${key}: ${values.length} numbers`;
  const canvas = h('canvas', [], { role: 'img', height: 160, 'aria-label': label });
  later.push(() => plot(canvas, [values.map((value, i) => /** @type {Point} */ ([i, value]))]));
  return [canvas];
}

/** Whole numbers of a model with a vocabulary are text, unless they count something. @param {Port} output */
const isTextOutput = ({ entry, isFloat }) =>
  Boolean(plan.model.vocab) && !isFloat && inputsOf(entry).some(({ isText }) => isText);

/** @param {Port} output @param {number} value */
export function oneText(output, value) {
  if (isTextOutput(output)) return textOfIds([value]) || `${value}`;
  if (output.isFloat) return `${outputName(output)} = ${shownNumber(value)}`;
  return preparedClasses()?.[value] ?? `${output.key} = ${value}`;
}

/** @param {number[]} list */
export const areShares = list =>
  list.every(v => v >= 0 && v <= 1.0001) && Math.abs(list.reduce((a, b) => a + b, 0) - 1) < 0.01;

/** The best class, then a bar for each, the largest ones if there are many. @param {number[]} values */
function classElements(values) {
  const best = values.indexOf(Math.max(...values));
  const isShare = areShares(values);
  const sure = isShare ? ` · ${percent(values[best])}` : '';
  const name = preparedClasses()?.[best] ?? `class ${best}`;
  return [
    h('p', `${name}${sure}`, { className: 'answer' }),
    barsElement(values, best, classNames(values.length), isShare),
  ];
}

/** @param {number[]} values @param {number} best @param {string[]} [names] @param {boolean} [isShare] */
function barsElement(values, best, names, isShare) {
  const most = isShare ? 1 : Math.max(...values.map(Math.abs), 1e-9);
  const order = values.map((_, i) => i);
  if (values.length > MOST_BARS) order.sort((a, b) => values[b] - values[a]).splice(MOST_BARS);
  const bars = order.map(i => {
    const filled = h('i');
    filled.style.width = `${(100 * Math.abs(values[i])) / most}%`;
    const cells = [
      h('span', names?.[i] ?? i, { title: names?.[i] ?? '' }),
      h('span', filled, { className: 'track' }),
      h('span', isShare ? percent(values[i]) : shownNumber(values[i])),
    ];
    return h('div', cells, { className: i === best ? 'bar best' : 'bar' });
  });
  return h('div', bars, { className: 'bars' });
}

/** @param {number[]} values @param {Picture} picture */
function pictureElement(values, picture) {
  const { width, height } = picture;
  const low = values.reduce((a, b) => Math.min(a, b), 0);
  const high = values.reduce((a, b) => Math.max(a, b), low);
  const label = `picture: ${shownNumber(low)} is black, ${shownNumber(high)} white`;
  const properties = { width, height, role: 'img', 'aria-label': label };
  const canvas = h('canvas', [], { className: 'seen large', ...properties });
  canvas.getContext('2d')?.putImageData(pixelsOfRow(values, picture, { low, high }), 0, 0);
  return canvas;
}

/** The input and output of an entry that maps numbers to numbers, for any number of rows. @param {string} entry */
export function curvePorts(entry) {
  const { inputs, outputs, rows } = plan.entries[entry];
  const [x, ...moreInputs] = Object.keys(inputs);
  const [y, ...moreOutputs] = Object.keys(outputs);
  if (!x || !y || moreInputs.length || moreOutputs.length || rows?.outputs?.[y] !== 'rows') return;
  const ports = { x: inputOf(entry, x), y: outputOf(entry, y) };
  return Object.values(ports).every(({ isFloat, size }) => isFloat && size === 1)
    ? ports
    : undefined;
}

/** @param {{x: Input, y: Port}} ports */
export async function drawPredictionCurve({ x, y }) {
  const { low, high } = columnRange(x, 0);
  const at = (/** @type {number} */ i) => low + ((high - low) * i) / (CURVE_POINTS - 1);
  const xs = Float32Array.from({ length: CURVE_POINTS }, (_, i) => at(i));
  const arrays = await page.model.call(x.entry, { [x.key]: xs });
  const line = Array.from(arrays[y.key], (value, i) => /** @type {Point} */ ([xs[i], value]));
  $('curve').hidden = false;
  plot($('curve'), [line], { dots: dataDots(x) });
}

/** Rows of the data as points, if it has one number for each x. @param {Input} x @returns {Point[]} */
function dataDots(x) {
  const arrays = arraysOf(page.data?.train);
  const xs = arrays?.[x.key];
  const [y, ...more] = inputsOf(trainer).filter(({ key, hasRows }) => key !== x.key && hasRows);
  if (!y || more.length || !xs || !y.isFloat || y.size !== 1) return [];
  /** @type {Point[]} */
  const dots = [];
  for (let i = 0; i < xs.length; i += Math.ceil(xs.length / MOST_DOTS))
    dots.push([rawNumber(x, xs[i], 0), rawNumber(y, arrays[y.key][i], 0)]);
  return dots;
}
