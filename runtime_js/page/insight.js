// The card that shows what a trained model has learned: how often it is right and what it takes for
// what, or its errors; which columns matter; the rows that it gets most wrong; a report of that.

import { $, guarded, h, put, show } from './elements.js';
import { bestOf, confusionOf, errorsOf, largest, shareInterval } from './insight_numbers.js';
import { downloadReport } from './insight_report.js';
import {
  cellsOf,
  columnsOf,
  importanceOf,
  judgedBy,
  labelsOf,
  MOST_EXCHANGED,
  predictRows,
} from './insight_rows.js';
import { plot } from './plot.js';
import { countOf, percent, shownNumber } from './ports.js';
import { page } from './state.js';

/** @import { Child } from './elements.js' */
/** @import { Found, Judged } from './insight_rows.js' */
/** @import { Point } from './plot.js' */

const MOST_WRONG = 8;
/** A table of more classes cannot be read. */
const MOST_CLASSES = 30;
/** Below it, an interval and an importance say little. */
const FEW_ROWS = 30;

/** Counts drawings, because an older one must not replace a newer. */
let drawings = 0;
/** What draws the canvas again. @type {() => void} */
let drawScatter = () => {};

/** Looks at the predictions, and draws all. Nothing is shown of a model that has not trained. */
async function drawInsight() {
  const drawing = ++drawings;
  const isOver = () => drawing !== drawings || Boolean(page.running);
  const judged = judgedBy();
  const found = judged && page.step && !page.running ? await predictRows(judged) : undefined;
  if (isOver()) return;
  show({ insight: found });
  if (!judged || !found) return;
  drawFound(judged, found);
  put('insight-importance', []);
  if (!$('insight-more').open || columnsOf(judged.x).length > MOST_EXCHANGED) return;
  const importance = await importanceOf(judged, found, isOver);
  if (!isOver()) put('insight-importance', importanceElements(judged, importance));
}

/** @param {Judged} judged @param {Found} found */
function drawFound(judged, found) {
  const rows = countOf(found.rows, 'row');
  const which = found.isHeldOut
    ? `Judged by ${rows} that were held out: the model has never seen them.`
    : `Judged by ${rows} that it has trained on: hold rows out to see how it does on others.`;
  const few = found.rows < FEW_ROWS ? ' These are few; take the figures as rough ones.' : '';
  put('insight-rows', which + few);
  const { classes } = judged;
  put('insight-figures', classes ? classFigures(found) : numberFigures(judged, found));
  const names = labelsOf(judged);
  const isTable = classes > 0 && classes <= MOST_CLASSES;
  put('insight-table', isTable ? confusionElement(found, names) : []);
  drawScatter = () => !classes && scatter(judged, found);
  show({ 'insight-plot': !classes, 'insight-line': !classes });
  drawScatter();
  put('insight-wrong', wrongElement(judged, found));
}

/** @param {string} name @param {string} value @param {string} remark */
const figure = (name, value, remark) =>
  h('div', [h('dt', name), h('dd', [value, h('small', ` ${remark}`)])]);

/** @param {Found} found */
function classFigures({ truth, predicted, rows }) {
  const right = truth.filter((id, i) => id === predicted[i]).length;
  const [low, high] = shareInterval(right, rows);
  const range = `${percent(low, 0)} to ${percent(high, 0)} on many rows like these, probably`;
  const counts = [...new Set(truth)].map(id => truth.filter(one => one === id).length);
  const always = percent(Math.max(...counts) / rows, 0);
  return [
    figure('right', percent(right / rows), range),
    figure('always the most frequent class', always, 'would be right as often'),
  ];
}

/** @param {Judged} judged @param {Found} found */
function numberFigures({ y }, { truth, predicted }) {
  const { r2, absolute, root } = errorsOf(truth, predicted);
  const unit = y.prepared?.sources?.[0]?.unit ?? '';
  const inUnits = (/** @type {number} */ value) => `${shownNumber(value)} ${unit}`.trim();
  return [
    figure('wrong by', inUnits(absolute), 'on average'),
    figure('root of the mean square', inUnits(root), 'large errors count more'),
    figure('R²', Number.isNaN(r2) ? '–' : r2.toFixed(3), '1 is perfect, 0 no better than the mean'),
  ];
}

/** @param {Found} found @param {string[]} names */
function confusionElement({ truth, predicted }, names) {
  const table = confusionOf(truth, predicted, names.length);
  const most = Math.max(...table.flat(), 1);
  const head = names.map(name => h('th', name, { scope: 'col' }));
  const rows = table.map((counts, i) =>
    h('tr', [
      h('th', names[i], { scope: 'row' }),
      ...counts.map((count, j) => confusionCell(count, most, i === j)),
    ]),
  );
  return h('table', [
    h('caption', 'Rows: what it is. Columns: what the model says.'),
    h('thead', h('tr', [h('td', ''), ...head])),
    h('tbody', rows),
  ]);
}

/** Darker where there are more. @param {number} count @param {number} most @param {boolean} isRight */
function confusionCell(count, most, isRight) {
  const cell = h('td', count || '·', { className: isRight ? 'right' : 'wrong' });
  cell.style.setProperty('--share', `${Math.round((60 * count) / most)}%`);
  return cell;
}

/** @param {Judged} judged @param {Found} found */
function scatter({ y }, { truth, predicted }) {
  const all = [...truth, ...predicted];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const name = y.prepared?.columns?.[0] ?? y.key;
  const dots = truth.map((value, i) => /** @type {Point} */ ([value, predicted[i]]));
  const titles = /** @type {[string, string]} */ ([`true ${name}`, `predicted ${name}`]);
  plot(
    $('insight-plot'),
    [
      [
        [low, low],
        [high, high],
      ],
    ],
    { dots, titles },
  );
}

/** The rows with the largest errors; of classes, those of which it is surest. @param {Judged} judged @param {Found} found */
function wrongElement(judged, found) {
  const { truth, predicted } = found;
  const errors = truth.map((value, i) =>
    judged.classes ? surety(judged, found, i) : Math.abs(value - predicted[i]),
  );
  const rows = largest(errors, MOST_WRONG).filter(row => errors[row] > 0);
  const columns = columnsOf(judged.x);
  const isReadable = columns.length <= MOST_EXCHANGED;
  if (!rows.length) return h('p', 'No row is wrong.', { className: 'note' });
  const names = labelsOf(judged);
  const text = (/** @type {number} */ value) =>
    judged.classes ? names[value] : shownNumber(value);
  const heads = ['it is', 'the model says', ...(isReadable ? columns.map(({ name }) => name) : [])];
  const lines = rows.map(row =>
    h('tr', [
      h('td', text(truth[row])),
      h('td', text(predicted[row]), { className: 'result' }),
      ...(isReadable ? cellsOf(judged, found, row) : []).map(cell => h('td', cell)),
    ]),
  );
  return h('table', [
    h('caption', 'The rows that it gets most wrong'),
    h(
      'thead',
      h(
        'tr',
        heads.map(name => h('th', name, { scope: 'col' })),
      ),
    ),
    h('tbody', lines),
  ]);
}

/** How much higher the wrong class is scored than the right one. @param {Judged} judged @param {Found} found @param {number} row */
function surety({ classes }, { scores, truth }, row) {
  const own = Array.from({ length: classes }, (_, i) => scores[row * classes + i]);
  return own[bestOf(own, classes)[0]] - own[truth[row]];
}

/** @param {Judged} judged @param {{name: string, worse: number}[]} importance @returns {Child[]} */
function importanceElements({ classes }, importance) {
  const most = Math.max(...importance.map(({ worse }) => worse), 1e-9);
  const bars = importance.map(({ name, worse }) => {
    const filled = h('i');
    filled.style.width = `${(100 * Math.max(worse, 0)) / most}%`;
    const text = classes ? percent(worse) : shownNumber(worse);
    return h(
      'div',
      [
        h('span', name, { title: name }),
        h('span', filled, { className: 'track' }),
        h('span', text),
      ],
      { className: 'bar best' },
    );
  });
  const what = classes ? 'fewer rows are right' : 'the mean error grows';
  return [
    h(
      'p',
      `What each column is worth: by how much ${what} if its values are exchanged between rows.`,
      { className: 'note' },
    ),
    h('div', bars, { className: 'bars' }),
  ];
}

export function insightCard() {
  const drawn = guarded(drawInsight);
  for (const happening of /** @type {const} */ (['values', 'data']))
    page.when(happening, () => drawn(null));
  page.when('look', () => drawScatter());
  $('insight-more').ontoggle = drawn;
  $('insight-report').onclick = guarded(downloadReport);
}
