// A GPT that writes while it learns. examples/pages.py builds the page.

import { readTensors } from '../../runtime_js/files/safetensors.js';
import { files, load, plan } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { plot } from '../../runtime_js/page/plot.js';
import {
  askBeforeLeaving,
  loadingWords,
  problemWords,
  reasonOf,
} from '../../runtime_js/page/problems.js';

const $ = id => document.getElementById(id);
const { vocab } = plan.model;
const data = readTensors(files['train.safetensors'], 'train').tensors;
const test = readTensors(files['test.safetensors'], 'test').tensors;
const STEPS = 400;
const EVERY = 5;
const SAMPLE = 20; // steps between two samples
const LETTERS = 160;
let model;
let history = [];
let tested = [];
let running = null;
/** Resolves when the last training has ended. */
let ended = Promise.resolve();
let writing = 0; // the sample that is being written; a newer one ends it

load({
  entries: ['forget', 'decode'],
  onProgress: progress => {
    $('status').textContent = loadingWords(progress);
  },
}).then(
  async loaded => {
    model = loaded;
    $('work').hidden = false;
    $('status').textContent = `On ${model.adapter.name}.`;
    surviveWith(model, stop, write);
    await write();
  },
  error => {
    $('status').textContent = reasonOf(error);
  },
);

/** Reads the prompt and streams what follows, one letter per call of `decode`. */
async function write() {
  const mine = ++writing;
  const prompt = knownPart($('prompt').value) || '\n';
  const start = performance.now();
  $('text').replaceChildren(Object.assign(document.createElement('b'), { textContent: prompt }));
  const written = $('text').appendChild(document.createTextNode(''));
  await model.forget({});
  const step = async id => (await model.decode({ id, temperature: +$('temperature').value })).id[0];
  let id = 0;
  for (const letter of prompt) if (mine === writing) id = await step(vocab.indexOf(letter));
  for (let i = 0; i < LETTERS && mine === writing; i++) {
    written.data += vocab[id];
    id = await step(id);
    $('speed').textContent = Math.round(
      (1000 * (prompt.length + i + 1)) / (performance.now() - start),
    );
  }
}

/** The prompt without letters that the model does not know; those are named. */
function knownPart(text) {
  const unknown = [...new Set(text)].filter(letter => !vocab.includes(letter));
  $('unknown').textContent = unknown.length
    ? `It does not know ${unknown.join(' ')}: it learns English letters, digits and signs only.`
    : '';
  return [...text].filter(letter => vocab.includes(letter)).join('');
}

async function show({ step, loss }) {
  history.push([step, loss]);
  $('step').textContent = step;
  $('loss').textContent = loss.toFixed(3);
  if (step % SAMPLE === 0) {
    const score = (await model.eval({ letters: test.letters })).loss[0];
    tested.push([step, score]);
    $('test').textContent = score.toFixed(3);
  }
  plot($('plot'), [history, tested]);
  if (step % SAMPLE === 0) await write();
}

async function train() {
  running = new AbortController();
  const { signal } = running;
  $('start').textContent = 'Stop';
  try {
    for await (const report of model.fit(
      { letters: data.letters },
      { steps: STEPS, every: EVERY, signal },
    ))
      await show(report);
    $('status').textContent =
      `Learned for ${$('step').textContent} steps on ${model.adapter.name}.`;
  } catch (error) {
    if (error.name !== 'AbortError') $('status').textContent = problemWords(error);
  } finally {
    running = null;
    $('start').textContent = 'Train';
  }
}
/** Ends a training and a text. */
async function stop() {
  writing++;
  running?.abort();
  await ended;
}
$('start').onclick = () => {
  if (running) return running.abort();
  ended = train();
};
askBeforeLeaving(() => running || history.length);
$('reset').onclick = async () => {
  running?.abort();
  await model.reset(Math.floor(Math.random() * 1e6));
  history = [];
  tested = [];
  for (const id of ['step', 'loss', 'test']) $(id).textContent = id === 'step' ? 0 : '–';
  plot($('plot'), [history, tested]);
  await write();
};
$('write').onclick = () =>
  write().catch(error => {
    $('status').textContent = problemWords(error);
  });
$('temperature').oninput = () => {
  $('amount').textContent = $('temperature').value;
};
