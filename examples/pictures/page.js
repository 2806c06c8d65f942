// Three kinds of pictures, taught by a person. examples/pages.py builds the page.

import { load, plan } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { lossText, plot } from '../../runtime_js/page/plot.js';
import {
  askBeforeLeaving,
  loadingWords,
  problemWords,
  reasonOf,
} from '../../runtime_js/page/problems.js';
import { forgetVisit, keep, keeping, lastVisit, stepOf } from './keeping.js';
import { DOTS, pixelsOf, thumbnailOf, vary } from './pixels.js';

const $ = id => document.getElementById(id);
const make = (tag, text, parent, properties) =>
  parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }, properties));
const [BATCH] = plan.tensors[plan.entries.train.inputs.class].shape;
const STEPS = 120;
const EVERY = 4;
/** Pictures per second while the button of a kind is held down with the camera on. */
const RATE = 8;
const LINE = 14; // width of the pen
/** What the camera is asked for: the model gets few of its pixels. */
const FILM = { facingMode: 'environment', width: 320, height: 240 };
// Read at every guess.
const ink = $('ink').getContext('2d', { willReadFrequently: true });
const kinds = ['One', 'Two', 'Three'].map(name => ({ name, examples: [] }));
let model;
let history = [];
let running = null;
/** Resolves when the last training has ended. */
let ended = Promise.resolve();
let hasLearned = false;
let isGuessing = false;
let stream = null;

load({
  onProgress: progress => {
    $('status').textContent = loadingWords(progress);
  },
}).then(
  async loaded => {
    model = loaded;
    surviveWith(model, stop, guess);
    $('work').hidden = false;
    clear();
    $('status').textContent = `On ${model.adapter.name || 'your GPU'}. Draw something, and add it.`;
    await bringBack();
  },
  error => {
    $('status').textContent = reasonOf(error);
  },
);

// ---- examples

for (const kind of kinds) {
  const row = make('div', '', $('kinds'), { className: 'kind' });
  kind.field = make('input', '', row, {
    value: kind.name,
    ariaLabel: `name of kind ${kind.name}`,
    oninput: ({ target }) => {
      kind.name = target.value || '?';
    },
    onchange: () => keep(model, kinds),
  });
  kind.button = make('button', 'Add', row, { ariaLabel: `add an example of ${kind.name}` });
  kind.list = make('div', '', $('kinds'), { className: 'examples' });
  holdToRepeat(kind.button, () => add(kind, pixelsOf(shownPicture())));
}

/** A click acts once. With the camera on, holding the button down acts again and again. */
function holdToRepeat(button, act) {
  let timer;
  const end = () => clearInterval(timer);
  button.onclick = act;
  button.onpointerdown = () => {
    if (stream) timer = setInterval(act, 1000 / RATE);
  };
  button.onpointerup = button.onpointerleave = button.onpointercancel = end;
}

const shownPicture = () => (stream ? $('video') : $('ink'));

function add(kind, pixels) {
  put(kind, pixels);
  if (!stream) clear();
  showReady();
  keep(model, kinds);
}

function put(kind, pixels) {
  kind.examples.push(pixels);
  const thumbnail = thumbnailOf(pixels);
  thumbnail.title = 'click to remove';
  thumbnail.onclick = () => {
    kind.examples = kind.examples.filter(other => other !== pixels);
    thumbnail.remove();
    showReady();
    keep(model, kinds);
  };
  kind.list.append(thumbnail);
}

/** Shows what was there when the page was left. */
async function bringBack() {
  const last = await lastVisit(model);
  if (!last) return;
  last.kinds.forEach(({ name, examples }, i) => {
    kinds[i].name = kinds[i].field.value = name;
    for (const pixels of examples) put(kinds[i], pixels);
  });
  showReady();
  hasLearned = last.hasLearned;
  const step = stepOf(model);
  $('step').textContent = step;
  const learned = hasLearned ? `, and what it learned from them in ${step} steps` : '';
  $('status').textContent = `The examples of your last visit are back${learned}.`;
}

/** Training needs an example of each kind. */
function showReady() {
  const missing = kinds.filter(({ examples }) => !examples.length).map(({ name }) => name);
  $('start').disabled = missing.length > 0;
  if (missing.length) running?.abort();
  const counts = kinds.map(({ name, examples }) => `${name}: ${examples.length}`).join(', ');
  $('status').textContent = missing.length
    ? `Still without an example: ${missing.join(', ')}.`
    : `${counts}. Press Train when you have enough.`;
}

$('file').onchange = async ({ target }) => {
  const [file] = target.files;
  if (!file) return;
  const picture = await createImageBitmap(file);
  target.value = '';
  stopCamera();
  const size = Math.min(picture.width, picture.height);
  const [left, top] = [(picture.width - size) / 2, (picture.height - size) / 2];
  ink.drawImage(picture, left, top, size, size, 0, 0, $('ink').width, $('ink').height);
  $('status').textContent = 'Now press Add beside its kind.';
  await guess();
};

// ---- learning

/** Filled anew for each step: `fit` copies it, and new memory for 120 batches would be slow to get. */
const batch = {
  image: new Float32Array(BATCH * DOTS),
  class: Int32Array.from({ length: BATCH }, (_, i) => i % kinds.length),
};

/** A batch with as many pictures of each kind. */
function sample() {
  batch.class.forEach((kind, i) => {
    const { examples } = kinds[kind];
    const chosen = examples[Math.floor(Math.random() * examples.length)];
    vary(chosen, batch.image.subarray(i * DOTS, (i + 1) * DOTS));
  });
  return batch;
}

async function train() {
  running = new AbortController();
  $('start').textContent = 'Stop';
  const started = performance.now();
  try {
    const options = { steps: STEPS, every: EVERY, signal: running.signal };
    for await (const report of model.fit(sample, options)) await show(report);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    $('status').textContent = `Learned in ${seconds} seconds. Show it something.`;
  } catch (error) {
    if (error.name !== 'AbortError') $('status').textContent = problemWords(error);
  } finally {
    running = null;
    $('start').textContent = 'Train';
    keep(model, kinds);
  }
}
/** Ends a training that runs. */
async function stop() {
  running?.abort();
  await ended;
}
$('start').onclick = () => {
  if (running) return running.abort();
  ended = train();
};
askBeforeLeaving(() => running || keeping.isUnsaved);

async function show({ step, loss, outputs }) {
  hasLearned = true;
  history.push([step, loss]);
  $('step').textContent = step;
  $('loss').textContent = lossText(loss);
  $('acc').textContent = `${Math.round(100 * outputs.acc)} %`;
  plot($('plot'), [history], { log: true });
  await guess();
}

$('reset').onclick = async () => {
  await stop();
  await model.reset(Math.floor(Math.random() * 1e6));
  history = [];
  hasLearned = false;
  for (const kind of kinds) {
    kind.examples = [];
    kind.list.replaceChildren();
  }
  for (const id of ['step', 'loss', 'acc']) $(id).textContent = id === 'step' ? 0 : '–';
  plot($('plot'), [history]);
  $('guess').replaceChildren();
  showReady();
  await forgetVisit().catch(error => {
    $('status').textContent = problemWords(error);
  });
};

// ---- guessing

async function guess() {
  if (!hasLearned || isGuessing) return;
  isGuessing = true;
  const { probs } = await model.predict({ image: pixelsOf(shownPicture()) }).finally(() => {
    isGuessing = false;
  });
  const best = probs.indexOf(Math.max(...probs));
  $('guess').replaceChildren();
  kinds.forEach(({ name }, i) => {
    const row = make('div', '', $('guess'), { className: i === best ? 'bar best' : 'bar' });
    make('span', name, row, { title: name });
    make('i', '', row).style.width = `${100 * probs[i]}%`;
    make('span', `${Math.round(100 * probs[i])} %`, row);
  });
}

// ---- drawing and camera

function clear() {
  ink.fillStyle = '#fff';
  ink.fillRect(0, 0, $('ink').width, $('ink').height);
}
$('clear').onclick = clear;

let last = null;
const pointOf = ({ offsetX, offsetY }) => {
  const scale = $('ink').width / $('ink').clientWidth;
  return [offsetX * scale, offsetY * scale];
};
$('ink').onpointerdown = event => {
  $('ink').setPointerCapture(event.pointerId);
  last = pointOf(event);
};
$('ink').onpointermove = event => {
  if (!event.buttons || !last) return;
  const point = pointOf(event);
  ink.lineWidth = LINE;
  ink.lineCap = 'round';
  ink.strokeStyle = '#111';
  ink.beginPath();
  ink.moveTo(...last);
  ink.lineTo(...point);
  ink.stroke();
  last = point;
};
$('ink').onpointerup = () => {
  last = null;
  guess();
};

$('camera').onclick = async () => {
  if (stream) return stopCamera();
  $('camera').disabled = true;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: FILM });
  } catch (error) {
    $('status').textContent = `The camera cannot be used: ${error.message}`;
    return;
  } finally {
    $('camera').disabled = false;
  }
  $('video').srcObject = stream;
  await $('video').play();
  $('video').hidden = false;
  $('ink').hidden = true;
  $('camera').textContent = 'Draw instead';
  $('status').textContent = 'Hold a button Add down to take many pictures.';
  watch();
};

function stopCamera() {
  for (const track of stream?.getTracks() ?? []) track.stop();
  stream = null;
  $('video').hidden = true;
  $('ink').hidden = false;
  $('camera').textContent = 'Use the camera';
}

/** Guesses what the camera shows, as often as the model can. */
async function watch() {
  while (stream) {
    if (!running) await guess();
    await new Promise(requestAnimationFrame);
  }
}
