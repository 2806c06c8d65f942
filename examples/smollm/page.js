// A language model that the visitor gives chats and learns. build_page.py builds the page.

import { files, load, plan } from '../../runtime_js/page/bundle.js';
import { $, download, guarded, put, say, show } from '../../runtime_js/page/elements.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { lossText, plot } from '../../runtime_js/page/plot.js';
import { askBeforeLeaving, loadingWords, megabytes } from '../../runtime_js/page/problems.js';
import { chatForm } from '../../runtime_js/tokens/tokens.js';
import { lessonOf } from './lesson.js';
import { weightsIn } from './model_file.js';
import { forgetAll, keep, keptFiles, storageFolder } from './storage.js';

const facts = JSON.parse(new TextDecoder().decode(files['facts.json']));
const [, LENGTH] = plan.tensors[plan.entries.train.inputs.ids].shape;
/** `?device=wasm` and `?threads=1` choose what it runs on. */
const query = new URLSearchParams(location.search);
const options = Object.fromEntries(
  [...query].filter(([name]) => name === 'device' || name === 'threads'),
);
if (options.threads) options.threads = Number(options.threads);
/** Tokens of an answer in the comparison. */
const COMPARED = 60;

let model;
let tokens;
let chat;
let history = [];
/** Ends what runs now. @type {AbortController | null} */
let running = null;
let isSaved = true;
let hasLearned = false;
const folder = await storageFolder();

put(
  'about',
  `For models of ${plan.model.name.replace(/_Lora$/, '').replaceAll('_', ' ')}. It needs ${megabytes(plan.memory.peak)} MB of memory, and the file's size once more while it is opened.`,
);
put('memory', `${megabytes(plan.memory.peak)} MB`);
show({ 'keep-row': folder });
await showKept();

async function showKept() {
  const [kept] = folder ? await keptFiles(folder) : [];
  show({ kept });
  if (kept) put('use-kept', `Use ${kept.name}`);
}

// ---- the model

async function openModel(given) {
  const inside = given.filter(file => /\.(gguf|safetensors)$/i.test(file.name));
  const chosen = inside.length ? inside : given;
  if (!chosen.length) throw new Error('the folder holds no weights.safetensors');
  model?.dispose();
  model = undefined;
  show({ work: false, loading: true });
  try {
    await openWeights(chosen);
  } finally {
    show({ loading: false });
  }
}

async function openWeights(chosen) {
  const { weights, file } = await weightsIn(chosen, plan, facts);
  const onProgress = progress => {
    $('loading').value = progress.total ? progress.done / progress.total : 0;
    say(loadingWords(progress));
  };
  model = await load({ ...options, weights, onProgress });
  tokens = await model.tokens();
  surviveWith(model, stop, () => {});
  await newTalk();
  show({ work: true });
  say(`${file.name} is ready, on ${placeWords(model.adapter)}.`);
  if (folder && $('keep').checked) {
    await keep(folder, file);
    await showKept();
    say(`${file.name} is ready, on ${placeWords(model.adapter)}, and kept in this browser.`);
  }
}

const placeWords = ({ name, threads }) =>
  `${name || 'your GPU'}${threads > 1 ? ` with ${threads} threads` : ''}`;

// ---- talking

const number = id => Number($(id).value);
const settings = () => ({
  template: facts.template,
  temperature: number('temperature'),
  topK: number('top-k'),
  topP: number('top-p'),
  steps: number('steps'),
  system: $('system').value.trim(),
  seed: Math.floor(Math.random() * 2 ** 32),
});

async function newTalk() {
  const messages = chat?.messages ?? [];
  chat = await model.chat(settings());
  chat.messages = [];
  put('talk', []);
  return messages;
}

function bubble(role, text = '') {
  const element = document.createElement('p');
  element.className = role;
  element.textContent = text;
  $('talk').append(element);
  $('talk').scrollTop = $('talk').scrollHeight;
  return element;
}

async function talk() {
  const text = $('question').value.trim();
  if (!text) return;
  $('question').value = '';
  bubble('user', text);
  const answer = bubble('assistant', '…');
  // Settings may have changed; what was said stays.
  const { messages } = chat;
  chat = await model.chat(settings());
  chat.messages = messages;
  await write(answer, chat, text);
  if (chat.leftOut) say('The oldest messages are not seen any more: the cache is full.');
}

/** Streams an answer into an element. */
async function write(element, talker, text) {
  let written = '';
  for await (const piece of talker.ask(text, { signal: running.signal })) {
    written += piece;
    element.textContent = written;
    $('talk').scrollTop = $('talk').scrollHeight;
  }
  if (!written) element.textContent = '(nothing)';
}

/** One thing at a time; the button that started it ends it. */
async function run(button, job) {
  if (running) return running.abort();
  running = new AbortController();
  const label = $(button).textContent;
  put(button, 'Stop');
  showBusy(button);
  try {
    await job();
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  } finally {
    running = null;
    put(button, label);
    showBusy('');
  }
}

const BUTTONS = ['send', 'train', 'ask-both', 'forget', 'new-talk', 'save-gguf', 'save-peft'];
function showBusy(active) {
  for (const id of BUTTONS) $(id).disabled = active !== '' && id !== active;
  $('adapter-file').disabled = active !== '';
}

async function stop() {
  running?.abort();
}

// ---- learning

let lessonName = 'text.txt';

async function learn() {
  const form = chatForm(facts.template);
  const lesson = lessonOf(lessonName, $('text').value, tokens, form, LENGTH);
  put(
    'lesson',
    `${lesson.learned} tokens to learn, in ${lesson.rows} sequences with everyday conversations.`,
  );
  const steps = number('train-steps');
  const first = model.progress.steps.train ?? 0;
  const started = performance.now();
  say('Learning…');
  const { ids, targets } = lesson;
  const fit = model.fit({ ids, targets }, { steps, every: 1, signal: running.signal });
  for await (const { step, loss } of fit) {
    showReport(step, loss, (step - first) / steps, started);
  }
  say(`Learned in ${minutes(performance.now() - started)}. Ask both, or talk.`);
}

function showReport(step, loss, done, started) {
  hasLearned = true;
  isSaved = false;
  history.push([step, loss]);
  put('step', step);
  put('loss', lossText(loss));
  put('left', minutes(((performance.now() - started) * (1 - done)) / done));
  $('progress').value = done;
  showCurve();
  showMemory();
}

const minutes = ms =>
  ms < 90_000 ? `${Math.round(ms / 1000)} s` : `${(ms / 60_000).toFixed(1)} min`;

/** What the page uses, where a browser tells it. */
let isMeasuring = false;
async function showMemory() {
  if (isMeasuring || !globalThis.crossOriginIsolated || !performance.measureUserAgentSpecificMemory)
    return;
  isMeasuring = true;
  const { bytes } = await performance.measureUserAgentSpecificMemory().catch(() => ({ bytes: 0 }));
  if (bytes) put('memory', `${megabytes(bytes)} MB`);
  isMeasuring = false;
}

const showCurve = () => plot($('plot'), [history], { log: true });
addEventListener('resize', showCurve);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showCurve);

// ---- before and after

/** Corrections are products of two matrices: without the second, there are none. */
const SECOND = Object.keys(plan.tensors).filter(name => name.endsWith('.lora_b'));

/** The same question without and with what was learned, which is as before afterwards. */
async function compare() {
  const text = $('both-question').value.trim();
  if (!text) return;
  put('before', '…');
  put('after', hasLearned ? '…' : 'Nothing was learned yet.');
  const calm = { ...settings(), temperature: 0, steps: COMPARED };
  if (!hasLearned) return write($('before'), await model.chat(calm), text);
  const learned = await model.params(SECOND);
  const nothing = Object.entries(learned).map(([name, { shape, length }]) => [
    name,
    Object.assign(new Float32Array(length), { shape }),
  ]);
  try {
    await model.loadParams(Object.fromEntries(nothing), { strict: false });
    await write($('before'), await model.chat(calm), text);
  } finally {
    await model.loadParams(learned, { strict: false });
  }
  await write($('after'), await model.chat(calm), text);
}

// ---- keeping it

async function saveAs(form) {
  const { architecture } = facts;
  const saved = await model.saveAdapter({ form, architecture });
  for (const [name, bytes] of Object.entries(saved)) download(bytes, name);
  isSaved = true;
}

async function openAdapter(given) {
  await model.loadAdapter(given);
  hasLearned = isSaved = true;
  clearHistory();
  say(`${given.map(file => file.name).join(' and ')}: what was learned is there again.`);
}

function clearHistory() {
  history = [];
  put('step', 0);
  put('loss', '–');
  put('left', '–');
  $('progress').value = 0;
  showCurve();
}

// ---- what visitors do

const chosenFiles = input => {
  const chosen = [...input.files];
  input.value = '';
  return chosen;
};
for (const id of ['model-file', 'model-folder'])
  $(id).onchange = guarded(({ target }) => openModel(chosenFiles(target)));
$('use-kept').onclick = guarded(async () => openModel(await keptFiles(folder)));
$('forget-kept').onclick = guarded(async () => {
  await forgetAll(folder);
  await showKept();
});
$('ask').onsubmit = guarded(event => {
  event.preventDefault();
  return run('send', talk);
});
$('compare').onsubmit = guarded(event => {
  event.preventDefault();
  return run('ask-both', compare);
});
$('new-talk').onclick = guarded(newTalk);
$('train').onclick = guarded(() => run('train', learn));
$('forget').onclick = guarded(async () => {
  await model.loadAdapter(null);
  hasLearned = false;
  isSaved = true;
  clearHistory();
  say('It is as its file has it.');
});
$('save-gguf').onclick = guarded(() => saveAs('gguf'));
$('save-peft').onclick = guarded(() => saveAs('peft'));
$('adapter-file').onchange = guarded(({ target }) => openAdapter(chosenFiles(target)));
$('text-file').onchange = guarded(({ target }) => readText(chosenFiles(target)));
askBeforeLeaving(() => running || !isSaved);

async function readText([file]) {
  if (!file) return;
  $('text').value = await file.text();
  lessonName = file.name;
  say(`${file.name} is there. Press Learn.`);
}
$('text').oninput = () => {
  lessonName = $('text').value.trimStart().startsWith('{"') ? 'text.jsonl' : 'text.txt';
};

function acceptDrops(card, take) {
  card.ondragover = event => {
    event.preventDefault();
    card.classList.add('over');
  };
  card.ondragleave = () => card.classList.remove('over');
  card.ondrop = guarded(async event => {
    event.preventDefault();
    card.classList.remove('over');
    const dropped = await droppedFiles(event.dataTransfer);
    if (dropped.length) await take(dropped);
  });
}

/** Files, and those directly in folders. */
async function droppedFiles({ items }) {
  const entries = [...items].map(item => item.webkitGetAsEntry?.()).filter(Boolean);
  const listed = entry =>
    entry.isFile
      ? [entry]
      : new Promise((done, failed) => entry.createReader().readEntries(done, failed));
  const all = (await Promise.all(entries.map(listed))).flat().filter(entry => entry.isFile);
  return Promise.all(all.map(entry => new Promise((done, failed) => entry.file(done, failed))));
}
acceptDrops($('drop-model'), openModel);
acceptDrops($('drop-text'), readText);
