// Pause, step and undo of the model that runs. A step lights up the dispatches that it consists of,
// one after the other, with their kernels and lines of the model.

import { $ } from '../page/elements.js';
import { linesOfEntry, placesOf } from './dispatches.js';
import { running, trainSteps } from './run_frame.js';
import { bench, guarded, say } from './state.js';

/** Checkpoints that are kept to go back to, and their bytes. */
const MOST_KEPT = 20;
const MOST_BYTES = 64e6;
/** Milliseconds that a dispatch is lit, and all of them together, at most. */
const LIT_FOR = 350;
const ALL_LIT_FOR = 2500;

/** What the model was before each step or run, the newest last. @type {{step: number, bytes: Uint8Array}[]} */
let kept = [];
/** Counts steps that are shown: the next one ends the last. */
let shows = 0;

export function openStepping() {
  bench.when('opened', listen);
  $('pause').onclick = guarded(pauseOrGoOn);
  $('step').onclick = guarded(step);
  $('undo').onclick = guarded(undo);
}

/** To the page in the frame, once for each model. */
function listen() {
  kept = [];
  const page = running();
  page?.when('running', () => {
    if (page.running) keep(page);
    drawButtons();
    light();
  });
  page?.when('values', drawButtons);
  drawButtons();
}

/** @param {any} page */
async function keep(page) {
  const { step: at } = page;
  // It waits for nothing, so that the model saves before its first step.
  const bytes = await page.model.save();
  kept.push({ step: at, bytes });
  const size = () => kept.reduce((sum, one) => sum + one.bytes.length, 0);
  while (kept.length > 1 && (kept.length > MOST_KEPT || size() > MOST_BYTES)) kept.shift();
  drawButtons();
}

function drawButtons() {
  const page = running();
  const canTrain = Boolean(page?.data);
  $('pause').disabled = $('step').disabled = !canTrain;
  $('pause').textContent = page?.running ? 'Pause' : 'Go on';
  $('undo').disabled = !kept.length;
}

async function pauseOrGoOn() {
  const page = running();
  if (!page.running) return trainSteps();
  await page.stop();
  say(`Paused at step ${page.step.toLocaleString('en')}.`);
}

async function step() {
  const page = running();
  await page.stop();
  trainSteps(1);
  await Promise.all([page.ended, showStep(page)]);
  say(`Made step ${page.step.toLocaleString('en')}.`);
}

/** Back to before the last step or run. */
async function undo() {
  const page = running();
  await page.stop();
  const last = kept.pop();
  if (!last) return;
  await page.model.restore(last.bytes);
  await page.announce('values');
  say(`Back at step ${page.step.toLocaleString('en')}.`);
}

/** The lines that a training runs are marked as long as it does. */
function light() {
  const page = running();
  const trainer = trainerOf();
  bench.runs = page?.running && trainer ? linesOfEntry(trainer) : [];
  bench.announce('lit');
}

const trainerOf = () => {
  const entries = Object.entries(bench.built?.plan.entries ?? {});
  return entries.find(([, { training }]) => training)?.[0];
};

/** @param {any} page */
async function showStep(page) {
  const show = ++shows;
  const places = placesOf(trainerOf() ?? '');
  const pause = Math.min(LIT_FOR, ALL_LIT_FOR / places.length);
  for (const place of places) {
    bench.lit = place;
    bench.announce('lit');
    await new Promise(done => setTimeout(done, pause));
    if (show !== shows || page !== running()) break;
  }
  if (show === shows) bench.lit = null;
  bench.announce('lit');
}
