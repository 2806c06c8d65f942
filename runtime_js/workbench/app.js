// The workbench: a program is checked while it is typed, compiled and trained at a click.

import { $, download, h, put } from '../page/elements.js';
import { askOfBundle, build } from './building.js';
import { changed, whenChecked } from './checking.js';
import { ask, CANCELLED, keepForLater, startCompiler, stopCompiler } from './compiler.js';
import { applyEdits, cursor, draw, openEditor, replaceText, showText } from './editor.js';
import { openInside } from './inside.js';
import { readPrograms, sourcesOf } from './opening.js';
import { openRecording } from './recording.js';
import { forgetRun, readSettings, runBundle, trainAtOnce } from './run_frame.js';
import { openTabs, showTab } from './seeing.js';
import { addressOf, isName, isShared, keep, readAddress, recall } from './sharing.js';
import { bench, enter, guarded, say } from './state.js';
import { openStepping } from './stepping.js';
import { zip } from './zip.js';

/** @type {any[]} */
let examples = [];

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
    enter(words === CANCELLED && before !== 'error' ? 'ready' : 'error', words);
  } finally {
    $('cancel').hidden = true;
  }
}

/** @param {{files: Record<string, string>, main: string, sizes?: Record<string, number>, capture?: string[], run?: string}} programs */
function openPrograms({ files, main, sizes = {}, capture = [], run = '' }) {
  const program = Object.keys(files).find(name => name.endsWith('.wg'));
  forgetRun();
  Object.assign(bench, { files: { ...files }, sizes, capture, run, program });
  // What went wrong was about another program.
  if (hasStarted && document.body.dataset.state === 'error') enter('ready', '');
  openFile(main);
}

/** @param {string} name */
function openFile(name) {
  bench.main = name;
  if (name.endsWith('.wg')) bench.program = name;
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
  readSettings();
  const address = await addressOf();
  history.replaceState(null, '', address);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  say(`The address holds the model now (${address.length.toLocaleString('en')} characters).`);
}

/** Also when the compiler has started. */
let notice = '';

async function programsOfAddress() {
  notice = '';
  const programs = await readAddress(location.hash);
  if (programs || !isShared(location.hash)) return programs;
  notice = 'This address is damaged or too long: no program could be read from it.';
  say(notice);
  return null;
}

async function takeAway() {
  const kind = $('take').value;
  $('take').value = '';
  if (!kind) return;
  if (!bench.built) return say('Compile the model first: press Train.');
  say('Writing the bundle…');
  const files = await askOfBundle('bundle');
  const name = bench.built.plan.model.name;
  if (kind === 'page') download(files['index.html'], `${name}.html`);
  // The zip has all that the program reads, so that it can be opened again.
  else download(await zip({ ...sourcesOf(bench.built), ...files }).arrayBuffer(), `${name}.zip`);
  say(`${name} was written: ${Object.keys(files).length} files.`);
}

/** Another file, which the others can import. */
function addFile() {
  const name = prompt('The name of the new file', 'layers.wg');
  if (!name) return;
  if (!isName(name) || Object.hasOwn(bench.files, name))
    return say(
      'A file needs a name of its own, of letters, digits, _ and -, that ends with .wg, .wgsl, .json or .txt.',
    );
  bench.files[name] = '';
  openFile(name);
}

async function rename() {
  const name = prompt('The new name');
  if (!name) return;
  await whenChecked();
  const { answer } = await ask('rename', { at: cursor(), name });
  if (answer.problem) return say(answer.problem);
  applyEdits(answer.edits);
}

async function format() {
  const { answer } = await ask('format', { files: bench.files, main: bench.main });
  if (answer) replaceText(answer);
  else say('The program has errors of syntax.');
}

/** Without a compiler, no program can do anything about the error. */
let hasStarted = false;

/** @param {string} phase */
function tellPhase(phase) {
  if (phase.startsWith('failed')) return enter('error', `The compiler could not start: ${phase}`);
  if (phase !== 'ready') return say(`${phase}…`);
  hasStarted = true;
  // A check that ended with the last worker is asked again.
  changed();
  if (document.body.dataset.state !== 'loading') return;
  enter('ready', notice);
  keepForLater();
}

async function begin() {
  startCompiler(tellPhase);
  openEditor($('editor'), changed, whenChecked);
  await new Promise(done => setTimeout(done));
  document.body.classList.toggle('embed', new URLSearchParams(location.search).has('embed'));
  $('add').onclick = addFile;
  $('train').onclick = train;
  $('cancel').onclick = () => stopCompiler();
  $('share').onclick = guarded(share);
  $('format').onclick = guarded(format);
  $('rename').onclick = guarded(rename);
  $('take').onchange = guarded(takeAway);
  $('open').onchange = guarded(async () => {
    const list = [...$('open').files];
    // The same file can be chosen again.
    $('open').value = '';
    openPrograms(await readPrograms(list));
  });
  bench.when('line', draw);
  bench.when('lit', draw);
  bench.when('files', keep);
  bench.when('tab', keep);
  openInside(train);
  openRecording();
  openStepping();
  await loadExamples();
  const given = (await programsOfAddress()) ?? recall();
  if (given) Object.assign(bench, given);
  openPrograms(given ?? examples.find(({ name }) => name === 'sin'));
  openTabs();
  // An address that is pasted into the tab of this page.
  window.onhashchange = async () => {
    const other = await programsOfAddress();
    if (other) openPrograms(other);
  };
  await navigator.serviceWorker?.register('offline.js').catch(() => {});
}

// A task of its own: reading this script takes one.
setTimeout(begin);
