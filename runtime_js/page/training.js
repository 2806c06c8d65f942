// The card of the training: its controls, and the loop that trains up to a target.

import { plan } from './bundle.js';
import { addPoints, cutCurves, drawCurves, makeCurves } from './curves.js';
import { $, guarded, put, say, show } from './elements.js';
import { arraysOf } from './examples.js';
import { measureHeldOut, whyNotMeasured } from './held_out.js';
import { countOf, rowCount } from './ports.js';
import { page, trainer } from './state.js';

/** Steps of the first part, whose time says how often to report. */
const FIRST_STEPS = 4;
/** Milliseconds between reports, predictions while the model trains, and measurements. */
const REPORT_EVERY = 150;
const PREDICT_EVERY = 500;
const MEASURE_EVERY = 100;
/** Points of the curve of a run that is quick. */
const LEAST_POINTS = 100;
/** Of the time, the share that measurements may take. */
const MEASURE_SHARE = 0.2;

/**
 * Trains, for the steps of the target by default.
 * @param {number} [steps] @param {string} [words] that are said while it does
 */
export function startTraining(steps = targetSteps(), words = 'Training…') {
  const run = train(steps, words);
  page.ended = run.catch(() => {});
  return run;
}

/** @param {number} steps @param {string} words */
async function train(steps, words) {
  const { training } = page;
  const data = page.data?.train;
  const { signal } = beginRun(words);
  try {
    training.from = page.step;
    training.until = page.step + steps;
    await runPart(data, Math.min(FIRST_STEPS, steps), 1, signal);
    await runPart(data, training.until - page.step, reportEvery(steps), signal);
    await measure();
    say(`Trained to step ${page.step.toLocaleString('en')}.`);
  } catch (error) {
    training.isCut = /** @type {any} */ (error).code === 'device-lost';
    if (signal.aborted) say(`Stopped at step ${page.step.toLocaleString('en')}.`);
    throw error;
  } finally {
    page.running = null;
    await page.announce('running');
    drawProgress();
    await page.announce('values');
  }
}

/** @param {string} words */
function beginRun(words) {
  page.running = new AbortController();
  page.training.isCut = false;
  say(words);
  page.announce('running');
  return page.running;
}

/** Steps a second that were chosen; NaN: as many as possible. */
const speedLimit = () => Number($('speed-limit').value);

/** Steps between reports: often enough for a smooth curve, seldom enough for speed. @param {number} steps */
function reportEvery(steps) {
  if (speedLimit()) return 1;
  return Math.ceil(Math.min(steps / LEAST_POINTS, REPORT_EVERY / page.training.ms));
}

/** @param {any} data @param {number} steps @param {number} every @param {AbortSignal} signal */
async function runPart(data, steps, every, signal) {
  if (steps <= 0) return;
  let last = performance.now();
  for await (const report of page.model.fit(data, { entry: trainer, steps, every, signal })) {
    await takeReport(report);
    // As long as the chosen speed asks for.
    const rest = speedLimit() ? 1000 / speedLimit() - (performance.now() - last) : 0;
    if (rest > 0) await new Promise(done => setTimeout(done, rest));
    signal.throwIfAborted();
    last = performance.now();
  }
}

/** @param {{step: number, outputs: Record<string, number>, ms: number}} report */
async function takeReport({ step, outputs, ms }) {
  const { training } = page;
  training.ms = Math.max(ms, speedLimit() ? 1000 / speedLimit() : 0);
  addPoints('training', step, outputs);
  const now = performance.now();
  const pause = Math.max(MEASURE_EVERY, training.measureTook / MEASURE_SHARE);
  if (now - training.measuredAt > pause) await measure();
  put('speed', Number((1000 / training.ms).toPrecision(3)).toLocaleString('en'));
  drawProgress();
  if (now - training.predictedAt > PREDICT_EVERY) {
    await page.announce('learned');
    training.predictedAt = performance.now();
  }
}

async function measure() {
  const held = page.data?.heldOut;
  if (!held || whyNotMeasured(held)) return;
  const started = performance.now();
  addPoints('heldOut', page.step, await measureHeldOut(held));
  page.training.measuredAt = performance.now();
  page.training.measureTook = page.training.measuredAt - started;
}

/** Steps that the target asks for. */
function targetSteps() {
  const count = Math.max(1, Math.floor(Number($('target').value) || 1));
  if ($('target-unit').value !== 'epochs') return count;
  const rows = rowCount(trainer, arraysOf(page.data?.train));
  return count * Math.max(1, Math.floor(rows / (plan.entries[trainer].rows?.count ?? 1)));
}

function drawProgress() {
  const { from, until, ms } = page.training;
  const seconds = (ms * (until - page.step)) / 1000;
  put('step', page.step);
  $('progress').value = until > from ? Math.min(1, (page.step - from) / (until - from)) : 0;
  put('left', page.running && seconds > 1 ? `about ${timeWords(seconds)} left` : '');
  drawCurves();
}
/** @param {number} seconds */
const timeWords = seconds =>
  seconds < 90 ? countOf(Math.ceil(seconds), 'second') : countOf(Math.ceil(seconds / 60), 'minute');

/** Train is off without data. */
function drawControls() {
  put('start', page.running ? 'Stop' : 'Train');
  $('start').disabled = !page.data;
  put('trains-on', page.data ? dataWords(page.data) : missingData());
  put('no-held-out', whyNotMeasured(page.data?.heldOut));
}
/** @param {{isInvented: boolean, label: string}} data */
const dataWords = ({ isInvented, label }) =>
  `Learns from${isInvented ? ' invented data: choose your own above' : `: ${label}`}.`;

/** Why Train is off. */
function missingData() {
  if (page.panel.isAsking) return 'First answer the question about the new data, above.';
  if (page.panel.isRefused) return 'The data was not read: see above.';
  return 'There is no data: choose some first.';
}

export function trainingCard() {
  page.when('loaded', () => {
    show({ train: trainer });
    makeCurves();
    drawProgress();
  });
  page.when('data', () => {
    page.curves.heldOut = {};
    drawControls();
    drawProgress();
  });
  page.when('running', drawControls);
  page.when('values', () => {
    cutCurves(page.step);
    drawProgress();
  });
  page.when('reset', () => {
    page.curves = { training: {}, heldOut: {} };
    page.training.from = page.training.until = 0;
  });
  page.when('look', () => trainer && drawCurves());
  $('start').onclick = guarded(() => {
    if (page.running) return page.stop();
    put('recovered', '');
    return startTraining();
  });
  $('reset').onclick = guarded(async () => {
    const seed = $('seed').value;
    await page.reset(seed ? +seed : undefined);
    say(seed ? `Starts again, from seed ${seed}.` : 'Starts again.');
  });
}
