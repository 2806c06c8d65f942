// A curve that moves to its target. examples/pages.py builds the page.

import { load, plan } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import {
  across,
  areaOf,
  down,
  lossText,
  plot,
  sharesAt,
  speedText,
} from '../../runtime_js/page/plot.js';
import { askBeforeLeaving, problemWords, reasonOf } from '../../runtime_js/page/problems.js';

const $ = id => document.getElementById(id);
const [count] = plan.tensors[plan.entries.predict.inputs.x].shape;
const [batch] = plan.tensors[plan.entries.train.inputs.x].shape;
const grid = Float32Array.from({ length: count }, (_, i) => ((2 * i) / (count - 1) - 1) * Math.PI);
const targets = {
  sine: Math.sin,
  steps: x => Math.round(1.2 * Math.sin(x * 1.5)) * 0.7,
  chirp: x => Math.sin(x * (2 + x / 2)),
};
/** The step that the learning rate's schedule is set to for another target: the largest rate. */
const FRESH = 20;
/** The range of the y axis: from -REACH to REACH. */
const REACH = 1.6;
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
let model;
let target = grid.map(targets.sine);
let guess = new Float32Array(count);
let points = [];
/** Whether the target is the visitor's own. */
let isDrawn = false;
let history = [];
let running = null;
/** Resolves when the last training has ended. */
let ended = Promise.resolve();

load().then(
  async loaded => {
    model = loaded;
    $('work').hidden = false;
    $('status').textContent = `On ${model.adapter.name}.`;
    await show();
    surviveWith(model, stop, show);
  },
  error => {
    $('status').textContent = reasonOf(error);
  },
);

/** The target, interpolated between its drawn points. */
function at(x) {
  const place = ((x / Math.PI + 1) / 2) * (count - 1);
  const i = Math.min(count - 2, Math.max(0, Math.floor(place)));
  return target[i] + (target[i + 1] - target[i]) * (place - i);
}

/** A batch of noisy points of the current target. */
function sample() {
  const x = Float32Array.from({ length: batch }, () => (2 * Math.random() - 1) * Math.PI);
  const noise = +$('noise').value;
  const y = x.map(v => at(v) + noise * (Math.random() + Math.random() + Math.random() - 1.5) * 1.4);
  points = Array.from(x.subarray(0, 60), (v, i) => [v, y[i]]);
  return { x, y };
}

async function show() {
  guess = (await model.predict({ x: grid })).y;
  draw();
}

function draw() {
  const line = list => Array.from(list, (v, i) => [grid[i], v]);
  const canvas = $('curve');
  plot(canvas, [line(guess), line(target)], { range: [-REACH, REACH] });
  const context = canvas.getContext('2d');
  const area = areaOf(canvas);
  context.fillStyle = getComputedStyle(canvas).getPropertyValue('--warm');
  context.globalAlpha = 0.35;
  for (const [x, y] of points)
    context.fillRect(
      across(area, (x / Math.PI + 1) / 2) - 1.5,
      down(area, (y / REACH + 1) / 2) - 1.5,
      3,
      3,
    );
  context.globalAlpha = 1;
}

async function train() {
  running = new AbortController();
  $('start').textContent = 'Stop';
  $('status').textContent = `On ${model.adapter.name}.`;
  try {
    for await (const { step, loss, ms } of model.fit(sample, {
      steps: 1e9,
      every: 5,
      signal: running.signal,
    })) {
      history.push([step, loss]);
      if (history.length > 400) history.splice(0, 100);
      $('step').textContent = step;
      $('loss').textContent = lossText(loss);
      $('speed').textContent = speedText(1000 / ms);
      plot($('plot'), [history], { log: true });
      await show();
    }
  } catch (error) {
    if (error.name !== 'AbortError') $('status').textContent = problemWords(error);
  } finally {
    running = null;
    $('start').textContent = 'Train';
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
$('reset').onclick = async () => {
  await model.reset(Math.floor(Math.random() * 1e6));
  history = [];
  await show();
};
/** By the end of a training, its learning rate is too small for anything new. */
async function learnAnew() {
  points = [];
  draw();
  if (!history.length) return;
  await model.loadParams({ 'opt/opt/step': FRESH }, { strict: false });
  if (!running) $('status').textContent = 'Another curve: press Train, and it learns that one.';
}

askBeforeLeaving(() => running || history.length || isDrawn);

$('noise').oninput = () => {
  $('amount').textContent = $('noise').value;
};
for (const button of document.querySelectorAll('[data-target]'))
  button.onclick = () => {
    target = grid.map(targets[button.dataset.target]);
    isDrawn = false;
    return learnAnew();
  };

// Drawing with mouse or finger changes the target.
let last = null;
$('curve').onpointerdown = event => {
  $('curve').setPointerCapture(event.pointerId);
  last = null;
  move(event);
};
$('curve').onpointermove = event => {
  if (event.buttons) move(event);
};
$('curve').onpointerup = learnAnew;
function move({ offsetX, offsetY }) {
  const [right, up] = sharesAt(areaOf($('curve')), offsetX, offsetY);
  const i = Math.round(clamp(right, 0, 1) * (count - 1));
  const y = clamp((2 * up - 1) * REACH, -1.5, 1.5);
  const [from, before] = last ?? [i, y];
  for (let j = Math.min(i, from); j <= Math.max(i, from); j++)
    target[j] = i === from ? y : before + ((y - before) * (j - from)) / (i - from);
  last = [i, y];
  points = [];
  isDrawn = true;
  draw();
}
window.onresize = () => {
  if (model) draw();
};
