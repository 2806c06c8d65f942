// What the training reports: every output that is one number, as a number and as a curve; beside it
// the same for the held-out rows.

import { $, h, put, show } from './elements.js';
import { lossKey, scalarsOf } from './held_out.js';
import { plot } from './plot.js';
import { percent, shownNumber } from './ports.js';
import { page, trainer } from './state.js';

/** @typedef {'training' | 'heldOut'} Which */

/** Points of a curve that are kept; of older ones every second goes. */
const MOST_KEPT = 600;
const RECENT = 100;

/** @param {Which} which @param {number} step @param {Record<string, number>} numbers */
export function addPoints(which, step, numbers) {
  const lines = page.curves[which];
  for (const [key, value] of Object.entries(numbers)) {
    /** @type {[number, number][]} */
    const line = [...(lines[key] ?? []), [step, value]];
    const isLong = line.length > MOST_KEPT;
    lines[key] = isLong ? line.filter((_, i) => i % 2 || i > MOST_KEPT - RECENT) : line;
  }
}

/** Forgets what came after a step, as after a reset or a restored checkpoint. @param {number} last */
export function cutCurves(last) {
  for (const lines of Object.values(page.curves))
    for (const [key, line] of Object.entries(lines))
      lines[key] = line.filter(([step]) => step <= last);
}

export function drawCurves() {
  for (const key of scalarsOf(trainer)) drawCurve(key);
  show({ legend: page.curves.heldOut[lossKey]?.length });
}

/** @param {string} key */
function drawCurve(key) {
  const training = page.curves.training[key] ?? [];
  const heldOut = page.curves.heldOut[key] ?? [];
  const canvas = key === lossKey ? $('plot') : $(`plot-${key}`);
  plot(canvas, [training, heldOut], { log: key === lossKey, titles: ['step', titleOf(key)] });
  canvas.setAttribute('aria-label', curveWords(key, training));
  put(numberId('training', key), numberText(key, training.at(-1)?.[1]));
  const held = put($(numberId('heldOut', key)), numberText(key, heldOut.at(-1)?.[1]));
  held.parentElement.hidden = !heldOut.length;
}

/** @param {string} key @param {[number, number][]} line */
function curveWords(key, line) {
  const name = `${titleOf(key)} over steps${key === lossKey ? ', logarithmic' : ''}`;
  const [step, last] = line.at(-1) ?? [0, 0];
  if (line.length < 2) return `${name}: nothing yet`;
  return `${name}: from ${numberText(key, line[0][1])} to ${numberText(key, last)} at step ${step}`;
}

/** @param {string} key */
const isShare = key => /^acc(uracy)?$/i.test(key);
/** @param {string} key */
const titleOf = key => (isShare(key) ? 'accuracy' : key);
/** @param {string} key @param {number | undefined} value */
function numberText(key, value) {
  if (value === undefined) return '–';
  return isShare(key) ? percent(value) : shownNumber(value);
}

/** `loss` is the element of the training's loss. @param {Which} which @param {string} key */
function numberId(which, key) {
  const name = key === lossKey ? 'loss' : `number-${key}`;
  return which === 'training' ? name : `${name}-held-out`;
}

/** Elements for each number and curve. */
export function makeCurves() {
  const keys = scalarsOf(trainer);
  $('numbers').append(...keys.map(numbersOf));
  put(
    'plots',
    keys
      .filter(key => key !== lossKey)
      .map(key =>
        h('figure', [
          h('figcaption', titleOf(key), { className: 'note' }),
          h('canvas', [], { id: `plot-${key}`, role: 'img', height: 110 }),
        ]),
      ),
  );
}

/** A number of the training, and that of the held-out rows beside it. @param {string} key */
function numbersOf(key) {
  const held = [h('small', 'held out '), h('span', '–', { id: numberId('heldOut', key) })];
  return h('div', [
    h('dt', titleOf(key)),
    h('dd', [
      h('span', '–', { id: numberId('training', key) }),
      h('span', held, { className: 'held', hidden: true }),
    ]),
  ]);
}
