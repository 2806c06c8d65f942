// The workbench: a program is checked while it is typed, compiled and trained at a click.

import { unzip } from '../data/zip.js';
import { $, download, h, put } from '../page/elements.js';
import { build } from './building.js';
import { ask, keepForLater, startCompiler, stopCompiler } from './compiler.js';
import {
  applyEdits,
  cursor,
  draw,
  drawChecked,
  openEditor,
  replaceText,
  showText,
  textOf,
} from './editor.js';
import { openInside } from './inside.js';
import { openRecording } from './recording.js';
import { runBundle, trainAtOnce } from './run_frame.js';
import { openTabs, showTab } from './seeing.js';
import { addressOf, isName, keep, readAddress, recall } from './sharing.js';
import { drawSizes } from './sizes.js';
import { bench, enter, guarded, say } from './state.js';
import { openStepping } from './stepping.js';
import { zip } from './zip.js';

/** Milliseconds without a key after which the text is checked. */
const PAUSE = 150;
let timer = 0;
let isAsking = false;
/** @type {any[]} */
let examples = [];

function changed() {
  bench.files[bench.main] = textOf();
  keep();
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
}

async function check() {
  if (isAsking) return;
  isAsking = true;
  const given = textOf();
  try {
    const settings = { files: bench.files, main: bench.main };
    const { answer, ms, heap } = await ask('check', settings);
    if (given === textOf()) {
      bench.problems = answer.problems;
      bench.hints = answer.hints;
      drawChecked();
      drawSizes(answer.dims);
      drawProblems();
      Object.assign(globalThis, { wgccChecked: { ms, heap, problems: answer.problems.length } });
      bench.announce('checked');
    }
  } catch (error) {
    say(`${/** @type {Error} */ (error).message}`);
  } finally {
    isAsking = false;
    if (given !== textOf()) changed();
  }
}

function drawProblems() {
  put(
    'problems',
    bench.problems.map(problem =>
      h(
        'div',
        [
          h('b', `${problem.severity} ${problem.code} `),
          `line ${problem.line}: ${problem.message}\n${frameOf(problem)}${problem.advice.join('\n')} `,
          ...problem.fixes.map(({ title, edits }) =>
            h('button', `Apply: ${title}`, { onclick: () => applyEdits(edits) }),
          ),
        ],
        { className: 'problem' },
      ),
    ),
  );
  $('train').disabled = bench.problems.some(({ severity }) => severity === 'error');
}

/** The line with carets under the place. @param {import('./state.js').Problem} problem */
function frameOf({ from, to }) {
  const text = textOf();
  const start = text.lastIndexOf('\n', from - 1) + 1;
  const end = text.indexOf('\n', start);
  const line = text.slice(start, end < 0 ? undefined : end);
  const width = Math.max(1, Math.min(to, start + line.length) - from);
  return `  ${line}\n  ${' '.repeat(from - start)}${'^'.repeat(width)}\n`;
}

async function train() {
  const before = document.body.dataset.state;
  enter('compiling', 'Compiling…');
  $('cancel').hidden = false;
  try {
    const { built, ms } = await build();
    const { plan } = built;
    bench.built = built;
    Object.assign(globalThis, { wgccBuilt: { ms, kernels: plan.kernels.length } });
    bench.announce('built');
    if (bench.tab !== 'Inside') showTab('Run');
    // On a phone it is below the editor.
    $('seeing').scrollIntoView({ block: 'nearest' });
    await runBundle(built);
    bench.announce('opened');
    enter('ready', `Compiled in ${(ms / 1000).toFixed(2)} s: ${plan.kernels.length} kernels.`);
    await trainAtOnce();
  } catch (error) {
    const words = /** @type {Error} */ (error).message;
    // The last good bundle keeps running.
    enter(words === 'cancelled' && before !== 'error' ? 'ready' : 'error', words);
  } finally {
    $('cancel').hidden = true;
  }
}

/** @param {{files: Record<string, string>, main: string, sizes?: Record<string, number>, capture?: string[]}} programs */
function openPrograms({ files, main, sizes = {}, capture = [] }) {
  Object.assign(bench, { files: { ...files }, sizes, capture });
  openFile(main);
}

/** @param {string} name */
function openFile(name) {
  bench.main = name;
  showText(bench.files[name]);
  put(
    'files',
    Object.keys(bench.files).map(file =>
      h('button', file, {
        role: 'tab',
        'aria-selected': String(file === name),
        onclick: () => openFile(file),
      }),
    ),
  );
  bench.problems = [];
  bench.hints = [];
  changed();
}

async function loadExamples() {
  examples = await (await fetch('examples.json')).json();
  put('examples', [
    h('option', 'choose…', { value: '' }),
    ...examples.map(({ name }) => h('option', name, { value: name })),
  ]);
  $('examples').onchange = () => {
    const example = examples.find(({ name }) => name === $('examples').value);
    if (example) openPrograms(example);
  };
}

async function share() {
  const address = await addressOf();
  history.replaceState(null, '', address);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  say(`The address holds the model now (${address.length.toLocaleString('en')} characters).`);
}

async function takeAway() {
  const kind = $('take').value;
  $('take').value = '';
  if (!kind) return;
  if (!bench.built) return say('Compile the model first: press Train.');
  say('Writing the bundle…');
  const { answer: files } = await ask('bundle', {});
  const name = bench.built.plan.model.name;
  if (kind === 'page') download(files['index.html'], `${name}.html`);
  else download(await zip(files).arrayBuffer(), `${name}.zip`);
  say(`${name} was written: ${Object.keys(files).length} files.`);
}

/** Opens programs, or the program of a bundle's zip. @param {FileList} list */
async function openFiles(list) {
  /** @type {Record<string, string>} */
  const texts = {};
  for (const file of list) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const members = file.name.endsWith('.zip') ? await unzip(bytes) : { [file.name]: bytes };
    for (const [path, content] of Object.entries(members)) {
      const name = path.split('/').at(-1) ?? '';
      if (isName(name)) texts[name] = new TextDecoder().decode(content);
    }
  }
  const [main] = Object.keys(texts).sort(
    (a, b) => Number(b === 'model.wg') - Number(a === 'model.wg'),
  );
  if (main) openPrograms({ files: texts, main });
  else say('There is no .wg program in what was opened.');
}

/** Another file, which the others can import. */
function addFile() {
  const name = prompt('The name of the new file', 'layers.wg');
  if (!name) return;
  if (!isName(name) || Object.hasOwn(bench.files, name))
    return say('A file needs a name of its own, of letters, digits, _ and -, that ends with .wg.');
  bench.files[name] = '';
  openFile(name);
}

async function rename() {
  const name = prompt('The new name');
  if (!name) return;
  const { answer } = await ask('rename', { at: cursor(), name });
  if (answer.problem) return say(answer.problem);
  applyEdits(answer.edits);
}

async function format() {
  const { answer } = await ask('format', { files: bench.files, main: bench.main });
  if (answer) replaceText(answer);
  else say('The program has errors of syntax.');
}

/** @param {string} phase */
function tellPhase(phase) {
  if (phase.startsWith('failed')) return enter('error', `The compiler could not start: ${phase}`);
  if (phase !== 'ready') return say(`${phase}…`);
  // A check that ended with the last worker is asked again.
  changed();
  if (document.body.dataset.state !== 'loading') return;
  enter('ready', '');
  keepForLater();
}

async function begin() {
  openEditor($('editor'), changed);
  startCompiler(tellPhase);
  document.body.classList.toggle('embed', new URLSearchParams(location.search).has('embed'));
  $('add').onclick = addFile;
  $('train').onclick = train;
  $('cancel').onclick = () => stopCompiler();
  $('share').onclick = guarded(share);
  $('format').onclick = guarded(format);
  $('rename').onclick = guarded(rename);
  $('take').onchange = guarded(takeAway);
  $('open').onchange = guarded(() => openFiles($('open').files));
  bench.when('line', draw);
  bench.when('lit', draw);
  bench.when('files', keep);
  bench.when('tab', keep);
  openInside(train);
  openRecording();
  openStepping();
  await loadExamples();
  const given = (await readAddress(location.hash)) ?? recall();
  if (given) Object.assign(bench, given);
  openPrograms(given ?? examples.find(({ name }) => name === 'sin'));
  openTabs();
  await navigator.serviceWorker?.register('offline.js').catch(() => {});
}

begin();
