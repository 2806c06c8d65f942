// The tab Graph: the dispatches of an entry as boxes, joined where one reads what another wrote.

import { readPage } from '../graph/data.js';
import { Pane } from '../graph/pane.js';
import { $, h, put } from '../page/elements.js';
import { askOfBundle } from './building.js';
import { lineOf } from './dispatches.js';
import { bench } from './state.js';

let entry = '';
/** What leads to a line and its kernel. @type {(line: number) => void} */
let point = () => {};
/** @type {Pane | null} */
let pane = null;

/** @param {(line: number) => void} whenChosen */
export async function drawGraph(whenChosen) {
  point = whenChosen;
  const names = Object.keys(bench.built?.plan.entries ?? {});
  if (!names.includes(entry)) entry = names[0] ?? '';
  const answer = await askOfBundle('graph', { entry });
  if (bench.tab !== 'Graph') return;
  const { entries } = readPage(answer);
  pane = new Pane(entries[0].stages[0], [], select);
  put('shown', [choiceOf(names), h('p', HINT, { className: 'note' }), pane.element]);
  pane.begin();
  markGraph();
}

const HINT =
  'Drag to move, + and − zoom, arrow keys walk along the arrows; a box leads to its line and kernel.';

/** @param {string[]} names */
function choiceOf(names) {
  const options = names.map(name => h('option', name, { value: name, selected: name === entry }));
  const choice = h('select', options, { id: 'graph-entry', 'aria-label': 'Entry' });
  choice.onchange = () => {
    entry = choice.value;
    drawGraph(point);
  };
  return choice;
}

/** @param {Pane} chosen @param {number} number */
function select(chosen, number) {
  if (number < 0) return;
  const box = chosen.stage.boxes[number];
  chosen.show(number);
  if (box.kernel) bench.kernel = box.kernel;
  if (box.at) point(lineOf(box.at));
}

/** What is searched, or the dispatch of a step that is shown. */
export function markGraph() {
  if (!pane || !$('shown').contains(pane.element)) return;
  const { boxes } = pane.stage;
  const { lit } = bench;
  if (lit && lit.entry === entry) {
    const steps = boxes.flatMap((box, number) => (box.kernel ? [number] : []));
    return pane.show(steps[lit.number] ?? -1);
  }
  const isMatch = (/** @type {any} */ box) =>
    Object.values(box).join('\n').toLowerCase().includes(bench.search);
  const matches = boxes.flatMap((box, number) => (isMatch(box) ? [number] : []));
  pane.mark(bench.search ? new Set(matches) : null);
}
