// The tabs beside the editor: kernels, stages, memory, dispatches and files of the last build.

import { $, h, put } from '../page/elements.js';
import { askOfBundle } from './building.js';
import { ask } from './compiler.js';
import { dispatchesOf, lineOf, namedLine } from './dispatches.js';
import { revealLine } from './editor.js';
import { drawGraph, markGraph } from './graph_tab.js';
import { drawInside } from './inside.js';
import { drawKernels } from './kernels_tab.js';
import { drawMemory } from './memory.js';
import { bench, say } from './state.js';

const TABS = ['Run', 'Inside', 'Kernels', 'Stages', 'Memory', 'Graph', 'Dispatches', 'Files'];

/** Texts of stages by name, of the last build. @type {Map<string, string>} */
let stages = new Map();
let stage = 'simplified';

export function openTabs() {
  put(
    'tabs',
    TABS.map(name => h('button', name, { role: 'tab', onclick: () => showTab(name) })),
  );
  $('search').oninput = () => {
    bench.search = $('search').value.toLowerCase();
    drawTab();
  };
  bench.when('built', () => {
    stages = new Map();
    drawTab();
  });
  bench.when('line', markLines);
  bench.when('lit', markLit);
  showTab(TABS.includes(bench.tab) ? bench.tab : 'Run');
}

/** @param {string} name */
export function showTab(name) {
  bench.tab = name;
  for (const button of $('tabs').children)
    button.setAttribute('aria-selected', String(button.textContent === name));
  $('run').hidden = name !== 'Run';
  $('shown').hidden = $('search').hidden = name === 'Run';
  drawTab();
  bench.announce('tab');
}

function drawTab() {
  if (bench.tab === 'Run') return;
  if (!bench.built && bench.tab !== 'Inside')
    return put('shown', h('p', 'Compile the model first: press Train.'));
  const drawing = {
    Inside: drawInside,
    Kernels: () => drawKernels(point, drawTab),
    Stages: drawStages,
    Memory: () => put('shown', drawMemory(bench.built?.plan, bench.search)),
    Graph: () => drawGraph(point),
    Dispatches: drawDispatches,
    Files: drawFiles,
  }[bench.tab];
  drawing?.();
  markLines();
}

/** Marks a line of the model and what was made of it. @param {number} line */
function point(line) {
  bench.line = line;
  bench.announce('line');
  revealLine(line);
}

function markLines() {
  for (const element of $('shown').querySelectorAll('[data-line]'))
    element.classList.toggle('lit', bench.line > 0 && element.dataset.line === String(bench.line));
}

/** The dispatch of a step that is shown, where it can be seen. */
function markLit() {
  const { lit } = bench;
  markGraph();
  if (lit && bench.tab === 'Kernels' && bench.kernel !== lit.kernel) {
    bench.kernel = lit.kernel;
    drawTab();
  }
  $('kernel-text')?.classList.toggle('running', Boolean(lit) && lit?.kernel === bench.kernel);
  for (const row of $('shown').querySelectorAll('[data-dispatch]')) {
    const isLit = lit && row.dataset.dispatch === `${lit.entry} ${lit.number}`;
    row.classList.toggle('running', Boolean(isLit));
    if (isLit) row.scrollIntoView({ block: 'nearest' });
  }
}

async function drawStages() {
  const { answer: names } = await ask('stages', {});
  const before = names[names.indexOf(stage) - 1];
  const [old, now] = await Promise.all([before && stageText(before), stageText(stage)]);
  if (bench.tab !== 'Stages') return;
  const choice = h(
    'select',
    names.map((/** @type {string} */ name) =>
      h('option', name, { value: name, selected: name === stage }),
    ),
    { id: 'stage', 'aria-label': 'Stage' },
  );
  choice.onchange = () => {
    stage = choice.value;
    drawTab();
  };
  const known = new Set((old ?? '').split('\n'));
  const lines = now.split('\n').filter(line => line.toLowerCase().includes(bench.search));
  const changed = old ? lines.filter(line => !known.has(line)).length : 0;
  const note = old ? `${changed} lines differ from ${before}` : 'the program as it was read';
  put('shown', [
    choice,
    h('p', note, { className: 'note' }),
    h(
      'pre',
      lines.map(line => stageLine(line, Boolean(old) && !known.has(line))),
      { tabIndex: 0 },
    ),
  ]);
  markLines();
}

/** @param {string} name */
async function stageText(name) {
  if (!stages.has(name)) {
    say(`Printing the stage ${name}…`);
    stages.set(name, await askOfBundle('stage', { name }));
    say('');
  }
  return stages.get(name) ?? '';
}

/** @param {string} line @param {boolean} isNew */
const stageLine = (line, isNew) =>
  h('span', line || ' ', {
    className: `line linked${isNew ? ' added' : ''}`,
    'data-line': String(namedLine(line)),
    onclick: () => point(namedLine(line)),
  });

function drawDispatches() {
  const { plan } = /** @type {any} */ (bench.built);
  const rows = dispatchesOf(plan).filter(({ label }) => label.toLowerCase().includes(bench.search));
  const head = ['entry', 'kernel', 'line', 'grid', 'multiply-adds', 'bytes bound'];
  put('shown', [
    h('p', `${rows.length} dispatches; ${(plan.memory.peak / 1e6).toFixed(2)} MB at most.`, {
      className: 'note',
    }),
    h('table', [
      h(
        'tr',
        head.map(name => h('th', name)),
      ),
      ...rows.map(row => dispatchRow(plan, row)),
    ]),
  ]);
}

/** @param {any} plan @param {any} dispatch */
function dispatchRow(plan, { entry, number, kernel, at, grid, flops, bindings }) {
  const bytes = bindings.reduce(
    (/** @type {number} */ sum, /** @type {any} */ { size }) => sum + size,
    0,
  );
  const { name } = plan.kernels[kernel];
  const cells = [
    entry,
    name,
    lineOf(at) || at,
    grid?.join(' × ') ?? '',
    (flops / 2).toLocaleString('en'),
    bytes.toLocaleString('en'),
  ];
  return h(
    'tr',
    cells.map(cell => h('td', String(cell))),
    {
      className: 'linked',
      'data-line': String(lineOf(at)),
      'data-dispatch': `${entry} ${number}`,
      onclick: () => {
        bench.kernel = name;
        point(lineOf(at));
        showTab('Kernels');
      },
    },
  );
}

function drawFiles() {
  const { files } = /** @type {any} */ (bench.built);
  const rows = Object.entries(files).filter(([name]) => name.toLowerCase().includes(bench.search));
  put(
    'shown',
    h('table', [
      h('tr', [h('th', 'file'), h('th', 'bytes')]),
      ...rows.map(([name, bytes]) =>
        h('tr', [h('td', name), h('td', bytes.length.toLocaleString('en'))]),
      ),
    ]),
  );
}
