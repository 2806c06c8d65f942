// Magika learns kinds of files that it does not know. build_page.py builds the page.

import { readTensors } from '../../runtime_js/files/safetensors.js';
import { files, load } from '../../runtime_js/page/bundle.js';
import { $, download, guarded, say } from '../../runtime_js/page/elements.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { lossText, plot } from '../../runtime_js/page/plot.js';
import { askBeforeLeaving, loadingWords, reasonOf } from '../../runtime_js/page/problems.js';
import { featuresOf, isEnough, joined, LEAST_BYTES, LENGTH, textOf } from './bytes.js';
import { make, percent, showFiles } from './table.js';

const facts = JSON.parse(new TextDecoder().decode(files['kinds.json']));
const learned = readTensors(files['learned.safetensors'], 'learned').tensors;
const heldOut = readTensors(files['held_out.safetensors'], 'held_out').tensors;
const kinds = facts.kinds;
const OWN = kinds.length - 1;
const STEPS = 30;
/** Of the user's files, every third is for the test. */
const TEST_EVERY = 3;
/** How many kinds of a file are shown. */
const MOST_BARS = 4;

/** Two models: the one that was imported, and the one that learns. */
let original;
let model;
let history = [];
let running = null;
let hasLearned = false;
/** Whether what it learned is in a file. */
let isSaved = true;
/** The step at which the training ends. */
let goal = 0;
/** Resolves when the last training has ended. */
let ended = Promise.resolve();
/** The user's files: { path, features }. */
let own = [];
/** What is tried now: { path, features }; `isTyped`: it is the text that the page shows. */
let tried = null;

const rowOf = (tensors, i) => tensors.bytes.subarray(i * LENGTH, (i + 1) * LENGTH);
const samples = facts.held_out.map(({ path }, i) =>
  testFile(path, heldOut.target[i], rowOf(heldOut, i)),
);

function testFile(path, kind, features) {
  return { path, kind, features, isNew: kind >= facts.known, before: null, after: null };
}

const nameOf = kind => (kind === OWN ? $('own-name').value.trim() || 'mine' : kinds[kind]);
const isForTest = i => i % TEST_EVERY === TEST_EVERY - 1;
let ownTests = [];
const testFiles = () => [...samples, ...ownTests];

start().catch(error => say(reasonOf(error)));

async function start() {
  const onProgress = progress => say(loadingWords(progress));
  original = await load({ onProgress });
  model = await load({ onProgress });
  // Training waits until there is something to compare it with.
  $('start').disabled = true;
  $('work').hidden = false;
  surviveWith(model, stop, showAfter);
  surviveWith(original, async () => {}, showAfter);
  showLesson();
  say('Asking the model about files that it has never seen…');
  await judge('before', original);
  $('start').disabled = false;
  say(`Ready, on ${model.adapter.name || 'your GPU'}. Press Train.`);
}

/** The probabilities of all kinds for each of the samples. */
async function predictionsOf(asked, rows) {
  if (!rows.length) return [];
  const [all] = Object.values(await asked.predict({ bytes: joined(rows) }));
  return rows.map((_, i) => Array.from(all.subarray(i * kinds.length, (i + 1) * kinds.length)));
}

async function judge(side, asked, judged = testFiles()) {
  const found = await predictionsOf(
    asked,
    judged.map(file => file.features),
  );
  judged.forEach((file, i) => {
    file[side] = found[i];
  });
  showTables();
}

const showTables = () => showFiles(testFiles(), nameOf, file => guarded(() => tryOut(file))());

// ---- learning

/** The samples with those of the user, as `entry train` takes them. */
function lesson() {
  const mine = own.filter((_, i) => !isForTest(i)).map(file => file.features);
  const rows = learned.target.length;
  const target = new Int32Array(rows + mine.length).fill(OWN);
  target.set(learned.target);
  const given = Array.from({ length: rows }, (_, i) => rowOf(learned, i));
  return { bytes: joined([...given, ...mine]), target };
}

function showLesson() {
  const counts = new Map();
  for (const kind of lesson().target) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const [fresh, old] = [true, false].map(isNew =>
    [...counts].filter(([kind]) => kind >= facts.known === isNew),
  );
  const list = fresh.map(([kind, count]) => `${count} × ${nameOf(kind)}`).join(', ');
  $('lesson').textContent =
    `It learns from ${list}, and one file each of ${old.length} kinds that it knows (${old.map(([kind]) => nameOf(kind)).join(', ')}), so that it does not forget. ` +
    'Only its last layer is trained.';
}

async function train() {
  running = new AbortController();
  showRunning();
  goal = (model.progress.steps.train ?? 0) + STEPS;
  say('Learning…');
  try {
    const options = { steps: STEPS, every: 1, signal: running.signal };
    for await (const report of model.fit(lesson(), options)) showReport(report);
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  } finally {
    running = null;
    showRunning();
  }
  say('Testing…');
  await showAfter();
  const where = model.adapter.name || 'your GPU';
  say(`Learned on ${where}: new kinds right ${$('new-score').textContent}.`);
}

/** What needs a model that does not change waits for the end of the training. */
function showRunning() {
  $('start').textContent = running ? 'Stop' : 'Train';
  for (const id of ['reset', 'save', 'open']) $(id).disabled = Boolean(running);
}

function showReport({ step, loss, outputs }) {
  hasLearned = true;
  isSaved = false;
  say(`Learning: step ${step}, of ${goal}.`);
  history.push([step, loss]);
  $('step').textContent = step;
  $('loss').textContent = lossText(loss);
  $('acc').textContent = percent(outputs.accuracy);
  showCurve();
}

const showCurve = () => plot($('plot'), [history], { log: true });
addEventListener('resize', showCurve);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showCurve);

async function showAfter() {
  if (hasLearned) await judge('after', model);
  if (tried) await tryOut(tried);
}

/** Ends a training that runs. */
async function stop() {
  running?.abort();
  await ended;
}
$('start').onclick = guarded(() => {
  if (running) return running.abort();
  const run = train();
  ended = run.catch(() => {});
  return run;
});
askBeforeLeaving(() => running || !isSaved || own.length);
$('reset').onclick = guarded(async () => {
  await model.reset();
  hasLearned = false;
  isSaved = true;
  history = [];
  for (const file of testFiles()) file.after = null;
  for (const id of ['step', 'loss', 'acc']) $(id).textContent = id === 'step' ? 0 : '–';
  showCurve();
  showTables();
  if (tried) await tryOut(tried);
  say('It is as it was imported.');
});

// ---- trying a file

async function tryOut(file) {
  tried = file;
  $('tried').textContent = file.path;
  if (!isEnough(file.features)) {
    for (const id of ['before', 'after']) $(id).replaceChildren();
    $('tried').textContent = `${file.path} is too short: it needs ${LEAST_BYTES} bytes or more.`;
    return;
  }
  if (!file.isTyped) $('text').value = textOf(file.features);
  await showSide('before', original);
  if (hasLearned) await showSide('after', model);
  else $('after').textContent = 'Press Train first.';
}

async function showSide(id, asked) {
  const [probabilities] = await predictionsOf(asked, [tried.features]);
  const order = kinds.map((_, kind) => kind).sort((a, b) => probabilities[b] - probabilities[a]);
  $(id).replaceChildren();
  order.slice(0, MOST_BARS).forEach((kind, place) => {
    const bar = make('div', '', $(id), { className: place ? 'bar' : 'bar best' });
    make('span', nameOf(kind), bar);
    make('i', '', bar).style.width = `${100 * probabilities[kind]}%`;
    make('span', percent(probabilities[kind]), bar);
  });
}

const readFile = async file => ({
  path: file.name,
  features: featuresOf(new Uint8Array(await file.arrayBuffer())),
});
const pasted = () => ({
  path: 'pasted text',
  isTyped: true,
  features: featuresOf(new TextEncoder().encode($('text').value)),
});

$('file').onchange = guarded(async ({ target }) => {
  const [file] = target.files;
  if (file) await tryOut(await readFile(file));
  target.value = '';
});
let pause;
$('text').oninput = () => {
  clearTimeout(pause);
  pause = setTimeout(
    guarded(() => tryOut(pasted())),
    300,
  );
};

// ---- a kind of the user's own

async function addOwn(added) {
  const usable = added.filter(file => isEnough(file.features));
  own.push(...usable);
  await showOwn();
  const left = added.length - usable.length;
  const short = left ? ` ${left} too short to tell anything.` : '';
  say(`${own.length} files of ${nameOf(OWN)}.${short} Press Train.`);
}

async function showOwn() {
  $('own-list').replaceChildren(
    ...own.map((file, i) => make('li', `${file.path}${isForTest(i) ? ', for the test' : ''}`)),
  );
  ownTests = own
    .filter((_, i) => isForTest(i))
    .map(({ path, features }) => testFile(path, OWN, features));
  showLesson();
  await judge('before', original, ownTests);
  if (hasLearned) await judge('after', model, ownTests);
}

$('own-files').onchange = guarded(async ({ target }) => {
  const chosen = await Promise.all(Array.from(target.files, readFile));
  target.value = '';
  await addOwn(chosen);
});
$('own-text').onclick = guarded(() => addOwn([pasted()]));
$('own-none').onclick = guarded(() => {
  own = [];
  return showOwn();
});
$('own-name').oninput = () => {
  showLesson();
  showTables();
};

/** A card that takes dropped files. */
function acceptDrops(card, take) {
  card.ondragover = event => {
    event.preventDefault();
    card.classList.add('over');
  };
  card.ondragleave = () => card.classList.remove('over');
  card.ondrop = guarded(async event => {
    event.preventDefault();
    card.classList.remove('over');
    const dropped = await Promise.all(Array.from(event.dataTransfer.files, readFile));
    if (dropped.length) await take(dropped);
  });
}
acceptDrops($('drop-try'), ([first]) => tryOut(first));
acceptDrops($('drop-own'), addOwn);

// ---- keeping it

$('save').onclick = guarded(async () => {
  download(await model.save({ optimizer: false }), 'personal.safetensors');
  isSaved = true;
});
$('open').onchange = guarded(async ({ target }) => {
  const [file] = target.files;
  target.value = '';
  if (!file) return;
  await model.restore(await file.arrayBuffer(), { weightsOnly: true });
  hasLearned = isSaved = true;
  await showAfter();
  say(`Opened ${file.name}: new kinds right ${$('new-score').textContent}.`);
});
