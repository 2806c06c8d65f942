// The tab Inside: which values are captured, and what they are while the model trains.

import { $, h, put } from '../page/elements.js';
import { ask } from './compiler.js';
import { drawHistograms, drawMaps } from './pictures.js';
import { deadUnits, recorded } from './recording.js';
import { bench, guarded } from './state.js';

/** @import { Recorded } from './recording.js' */

/** Names that are listed; a glob reaches the others. */
const MOST_NAMES = 400;
/** Dead units that are named. */
const MOST_DEAD = 12;
/** The row of the batch whose maps are drawn, by value. @type {Map<string, number>} */
const chosenRows = new Map();
/** @type {() => Promise<void>} */
let rebuild = async () => {};

/** @param {() => Promise<void>} train compiles the model again, with what is captured now */
export function openInside(train) {
  rebuild = train;
  bench.when('recorded', () => {
    if (bench.tab === 'Inside') drawValues();
  });
}

export function drawInside() {
  const field = h('input', [], {
    id: 'globs',
    value: bench.capture.join(', '),
    placeholder: 'h, blocks.*.attn.weights, d.*.w',
  });
  const form = h(
    'form',
    [h('label', ['Values to look at ', field]), h('button', 'Capture', { id: 'capture' })],
    { className: 'row' },
  );
  form.onsubmit = event => {
    event.preventDefault();
    guarded(() => choose(field.value.split(',')))();
  };
  const names = h('div', [], { id: 'names', className: 'names' });
  put('shown', [
    form,
    h('details', [h('summary', 'Names in this model'), names], { open: !bench.capture.length }),
    h('div', [], { id: 'captured' }),
  ]);
  listNames(names).catch(() => {});
  drawValues();
}

/** @param {string[]} globs */
function choose(globs) {
  bench.capture = globs.map(glob => glob.trim()).filter(Boolean);
  bench.announce('files');
  drawInside();
  return rebuild();
}

/** @param {Element} box */
async function listNames(box) {
  const { answer } = await ask('names', {});
  const matching = answer.filter((/** @type {any} */ { name }) =>
    name.toLowerCase().includes(bench.search),
  );
  put(
    box,
    matching.slice(0, MOST_NAMES).map((/** @type {any} */ { name, type, line }) =>
      h('button', [name, h('small', ` ${type}`)], {
        'data-line': String(line),
        'aria-pressed': String(bench.capture.includes(name)),
        onclick: guarded(() => choose(toggled(name))),
      }),
    ),
  );
}

/** @param {string} name */
const toggled = name =>
  bench.capture.includes(name)
    ? bench.capture.filter(glob => glob !== name)
    : [...bench.capture, name];

function drawValues() {
  const box = $('captured');
  if (!box) return;
  const shown = [...recorded].filter(([name]) => name.toLowerCase().includes(bench.search));
  if (!shown.length)
    return put(box, h('p', emptyWords(), { className: 'note', id: 'nothing-captured' }));
  box.querySelector('#nothing-captured')?.remove();
  const cards = new Map([...box.children].map(card => [card.dataset.name, card]));
  for (const [name, card] of cards) if (!shown.some(([other]) => other === name)) card.remove();
  for (const [name, one] of shown) {
    const card = cards.get(name) ?? box.appendChild(cardOf(name));
    fillCard(card, name, one);
  }
}

const emptyWords = () =>
  bench.capture.length
    ? 'What is captured is drawn here as soon as the model has made a step.'
    : 'Choose values by name or glob: they are drawn while the model trains. d.NAME is a gradient.';

/** @param {string} name */
const cardOf = name =>
  h(
    'figure',
    [
      h('figcaption', name),
      h('p', '', { className: 'note facts' }),
      h('canvas', [], { className: 'histograms', role: 'img' }),
      h('p', '', { className: 'note range' }),
      h('div', [], { className: 'maps' }),
    ],
    { 'data-name': name, className: 'value' },
  );

/** @param {HTMLElement} card @param {string} name @param {Recorded} one */
function fillCard(card, name, one) {
  const last = one.records.at(-1);
  if (!last) return;
  const part = (/** @type {string} */ kind) => /** @type {any} */ (card.querySelector(`.${kind}`));
  put(part('facts'), factsOf(one));
  const range = drawHistograms(part('histograms'), one.records);
  const words = `Histograms from step ${one.records[0].step} to ${last.step}; from ${short(range.low)} (bottom) to ${short(range.high)} (top)`;
  part('histograms').setAttribute('aria-label', `${name}: ${words}`);
  put(part('range'), words);
  if (one.values && one.shape.length > 1) fillMaps(part('maps'), name, one);
}

/** @param {HTMLElement} box @param {string} name @param {Recorded} one */
function fillMaps(box, name, one) {
  const rows = one.shape.length > 2 ? one.shape[0] : 1;
  if (!box.firstChild)
    put(box, [rows > 1 && rowChoice(name, rows), h('canvas', [], { role: 'img' })]);
  const canvas = /** @type {HTMLCanvasElement} */ (box.querySelector('canvas'));
  const row = Math.min(chosenRows.get(name) ?? 0, rows - 1);
  const count = drawMaps(canvas, one, row);
  canvas.setAttribute('aria-label', `${name}: ${count} maps`);
}

/** @param {string} name @param {number} rows */
function rowChoice(name, rows) {
  const input = h('input', [], {
    type: 'range',
    min: '0',
    max: String(rows - 1),
    value: String(chosenRows.get(name) ?? 0),
  });
  input.oninput = () => {
    chosenRows.set(name, Number(input.value));
    drawValues();
  };
  return h('label', ['first axis ', input], { className: 'note' });
}

/** @param {Recorded} one */
function factsOf(one) {
  const { mean, deviation, min, max, zeros, nan, count } = /** @type {any} */ (one.records.at(-1));
  const share = (/** @type {number} */ part) => `${((100 * part) / count).toFixed(1)} %`;
  const facts = [
    `[${one.shape.join(', ')}]`,
    `mean ${short(mean)}`,
    `deviation ${short(deviation)}`,
    `${short(min)} to ${short(max)}`,
    `zeros ${share(zeros)}`,
    nan && `NaN ${share(nan)}`,
    deadWords(one),
  ];
  return facts.filter(Boolean).join(' · ');
}

/** @param {Recorded} one */
function deadWords(one) {
  const units = deadUnits(one);
  if (!units) return '';
  const { dead, count } = units;
  if (!dead.length) return `none of ${count} units is dead`;
  const named = `${dead.slice(0, MOST_DEAD).join(', ')}${dead.length > MOST_DEAD ? ', …' : ''}`;
  return `${dead.length} of ${count} units are dead (0 in every row): ${named}`;
}

/** @param {number} number */
const short = number =>
  Number(number.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 6 });
