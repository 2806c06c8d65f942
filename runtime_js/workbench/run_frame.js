// Runs the last bundle in a frame: the page that every bundle has, with data, curves and inputs.

import { $, h } from '../page/elements.js';
import { base64 } from './sharing.js';
import { bench, enter } from './state.js';

/** How often the frame is asked whether it trains, in milliseconds. */
const LOOK_EVERY = 100;
let looking = 0;
/** The page that the next one takes its settings and data from; null once another program is open. @type {any} */
let former = null;
/** Files that somebody chose there, and how they are read. @type {{files: any[], options: any} | null} */
let data = null;

/** @param {import('./state.js').Built} built */
export async function runBundle(built) {
  const { files, kernels, plan } = built;
  await readFormer();
  await closeLast();
  Object.assign(globalThis, {
    wgccBundle: {
      plan,
      kernels,
      source: built.settings.files[plan.model.source],
      constants: files['constants.safetensors'] && base64(files['constants.safetensors']),
      twin: files['twin.wasm'],
      tokenizer: files['tokenizer.json'],
      options: $('device').value ? { device: $('device').value } : {},
    },
  });
  // A new frame, in which nothing of the last model can be mistaken for this one.
  const src = `run.html#${bench.run}`;
  const frame = h('iframe', [], { id: 'frame', title: 'The model, running', src });
  $('frame').replaceWith(frame);
  $('run-note').textContent = '';
  clearInterval(looking);
  looking = setInterval(look, LOOK_EVERY);
  await until(() => running()?.isReady || problem());
  if (!running()?.isReady) throw new Error(`${problem()}`.replaceAll(/\s+/g, ' '));
  former = running();
}

/** Another program learns from data of its own. */
export function forgetRun() {
  former = data = null;
}

/** Reads how the page is set that runs the open program. */
export function readSettings() {
  if (former) bench.run = former.settings();
}

/** The page of this program goes on with the settings and files of the last one. */
async function readFormer() {
  if (!former) return;
  readSettings();
  const { source, options } = former.panel;
  data = source && {
    files: await Promise.all(source.files.map(copyOf)),
    options: structuredClone(options),
  };
}

/** A file that outlives its frame. @param {import('../data/files_given.js').SourceFile} file */
async function copyOf({ name, path, bytes }) {
  const blob = new Blob([await bytes()]);
  return { name, path: path.join('/'), arrayBuffer: () => blob.arrayBuffer() };
}

/** The last model gives its device back: browsers do not open many. */
async function closeLast() {
  const last = running();
  if (!last?.model) return;
  await last.stop();
  await last.model.dispose();
}

/** The state of the page in the frame; undefined while it loads. */
export const running = () => $('frame').contentWindow?.wgccPage;

/** Trains there, for the steps of its target by default. @param {number} [steps] */
export function trainSteps(steps) {
  const { contentDocument } = $('frame');
  const part = (/** @type {string} */ id) => contentDocument.getElementById(id);
  const [target, unit] = [part('target'), part('target-unit')];
  const before = [target.value, unit.value];
  if (steps) [target.value, unit.value] = [String(steps), 'steps'];
  part('start').click();
  [target.value, unit.value] = before;
}

/** Presses Train there, as soon as there is data. */
export async function trainAtOnce() {
  await until(() => running()?.isReady);
  if (data) await running().panel.take(data.files, data.options);
  const start = $('frame').contentDocument.getElementById('start');
  await until(() => !start.disabled, 10_000).catch(() => {});
  if (!start.disabled && !running().running) start.click();
}

/** What the page in the frame says is wrong. */
const problem = () => {
  const shown = $('frame').contentDocument?.getElementById('problem');
  return shown && !shown.hidden && shown.textContent;
};

/** @param {() => any} condition */
async function until(condition, longest = 120_000) {
  for (const since = performance.now(); !condition(); ) {
    if (performance.now() - since > longest) throw new Error('the model did not open');
    await new Promise(done => setTimeout(done, 50));
  }
}

function look() {
  const { state } = document.body.dataset;
  const trains = Boolean(running()?.running);
  if (trains && state === 'ready') enter('training');
  if (!trains && state === 'training') enter('ready');
}
