// Draw a digit, correct a wrong guess, and fine-tune. examples/pages.py builds the page.

import { readTensors } from '../../runtime_js/files/safetensors.js';
import { files, load } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { lossText, plot } from '../../runtime_js/page/plot.js';
import { askBeforeLeaving, problemWords, reasonOf } from '../../runtime_js/page/problems.js';

const $ = id => document.getElementById(id);
const data = readTensors(files['train.safetensors'], 'train').tensors;
const test = readTensors(files['test.safetensors'], 'test').tensors;
const make = (tag, text, parent, properties) =>
  parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }, properties));
const STEPS = 250;
const LESSON = 40;
const BATCH = 64;
const SHARE = 12; // steps at first, steps per correction, and how much of a batch corrections make
let model;
let history = [];
let corrections = [];
let strokes = [];
let image = new Uint8Array(64);
let busy = false;
/** Whether what was learned from the visitor's digits is saved. */
let isSaved = true;

for (let digit = 0; digit < 10; digit++)
  make('button', digit, $('answers'), { onclick: () => correct(digit).catch(say) });

load().then(
  async loaded => {
    model = loaded;
    $('work').hidden = $('train').hidden = false;
    surviveWith(model, async () => {}, read);
    await learn().catch(say);
  },
  error => {
    $('status').textContent = reasonOf(error);
  },
);

/** A problem, for the visitor. */
function say(error) {
  busy = false;
  $('status').textContent = problemWords(error);
}

/** Trains on the 1,437 images of the training set. */
async function learn() {
  busy = true;
  corrections = [];
  isSaved = true;
  history = [];
  await model.reset(Math.floor(Math.random() * 1e6));
  $('status').textContent = 'Learning from 1,437 digits…';
  for await (const report of model.fit(
    { image: data.image, label: data.label },
    { steps: STEPS, every: 10 },
  ))
    await show(report);
  $('status').textContent = `Learned on ${model.adapter.name}. Draw a digit.`;
  busy = false;
  await read();
}

const accuracy = async () => (await model.eval({ image: test.image, label: test.label })).acc[0];
const percent = x => `${(100 * x).toFixed(1)} %`;

async function show({ step, loss }) {
  history.push([step, loss]);
  $('step').textContent = step;
  $('loss').textContent = lossText(loss);
  plot($('plot'), [history], { log: true });
  if (step % 50 === 0 || step === STEPS) $('acc').textContent = percent(await accuracy());
}

/** Shows the network's prediction for the drawing. */
async function read() {
  image = pixels();
  const context = $('seen').getContext('2d');
  const shades = context.createImageData(8, 8);
  image.forEach((count, i) => {
    const grey = 255 - count * 15.9;
    shades.data.set([grey, grey, grey, 255], 4 * i);
  });
  context.putImageData(shades, 0, 0);
  const { probs } = await model.predict({ image });
  const best = probs.indexOf(Math.max(...probs));
  $('guess').replaceChildren();
  probs.forEach((p, digit) => {
    const row = make('div', '', $('guess'), {
      className: digit === best && strokes.length ? 'bar best' : 'bar',
    });
    make('span', digit, row);
    make('i', '', row).style.width = strokes.length ? `${100 * p}%` : '0';
    make('span', strokes.length ? percent(p) : '', row);
  });
  return probs;
}

/**
 * As the data set was made: the strokes centred in 32 x 32 dots, then dots counted in blocks of 4 x
 * 4.
 */
function pixels() {
  const dots = new Uint8Array(32 * 32);
  for (const stroke of centred(strokes))
    stroke.forEach((point, i) => {
      drawStroke(dots, stroke[Math.max(0, i - 1)], point);
    });
  const counts = new Uint8Array(64);
  dots.forEach((dot, i) => {
    const [x, y] = [i % 32, i >> 5];
    counts[8 * (y >> 2) + (x >> 2)] += dot;
  });
  return counts;
}

/** The strokes in the middle of 32 x 32 dots, as large as there is room; a dot stays small. */
function centred(lines) {
  const points = lines.flat();
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left, Math.max(...ys) - top];
  const scale = 26 / Math.max(width, height, 40);
  return lines.map(line =>
    line.map(([x, y]) => [
      16 + (x - left - width / 2) * scale,
      16 + (y - top - height / 2) * scale,
    ]),
  );
}

function drawStroke(dots, [ax, ay], [bx, by]) {
  const steps = Math.ceil(Math.hypot(bx - ax, by - ay) * 2) + 1;
  for (let step = 0; step <= steps; step++)
    drawDisc(
      dots,
      Math.round(ax + ((bx - ax) * step) / steps),
      Math.round(ay + ((by - ay) * step) / steps),
    );
}

/** The tip of the pen. */
function drawDisc(dots, centreX, centreY) {
  for (let dy = -2; dy <= 2; dy++)
    for (let dx = -2; dx <= 2; dx++) {
      const [x, y] = [centreX + dx, centreY + dy];
      const isInside = x >= 0 && x < 32 && y >= 0 && y < 32;
      if (isInside && dx * dx + dy * dy < 6) dots[32 * y + x] = 1;
    }
}

/**
 * Fine-tunes on the corrections so far, mixed with training images so as not to forget those.
 */
async function correct(digit) {
  if (busy || !strokes.length) return;
  busy = true;
  $('status').textContent = `Learning that this is a ${digit}…`;
  const before = { probs: await read(), accuracy: await accuracy() };
  corrections.push({ image: image.slice(), label: digit });
  isSaved = false;
  // The learning rate follows a schedule; this sets the step to where it is not yet zero.
  await model.loadParams({ 'opt/opt/step': 380 }, { strict: false });
  for await (const report of model.fit(lesson, { steps: LESSON, every: 10 })) await show(report);
  const after = { probs: await read(), accuracy: await accuracy() };
  const body = $('effect').tBodies[0];
  $('effect').hidden = false;
  body.replaceChildren();
  for (const [what, a, b] of [
    [`this is a ${digit}`, before.probs[digit], after.probs[digit]],
    ['correct on the 360 test images', before.accuracy, after.accuracy],
  ]) {
    const row = make('tr', '', body);
    for (const text of [what, percent(a), percent(b)]) make('td', text, row);
  }
  $('acc').textContent = percent(after.accuracy);
  $('status').textContent = `Learned from ${corrections.length} of your digits.`;
  busy = false;
}

function lesson() {
  const images = new Uint8Array(BATCH * 64);
  const label = new Int32Array(BATCH);
  for (let i = 0; i < BATCH; i++) {
    const own = i < SHARE && corrections[Math.floor(Math.random() * corrections.length)];
    const j = Math.floor(Math.random() * data.label.length);
    images.set(own ? own.image : data.image.subarray(64 * j, 64 * j + 64), 64 * i);
    label[i] = own ? own.label : data.label[j];
  }
  return { image: images, label };
}

// ---- ink

const ink = $('ink').getContext('2d');
function wipe() {
  strokes = [];
  ink.fillStyle = '#fff';
  ink.fillRect(0, 0, 320, 320);
  $('effect').hidden = true;
}
wipe();
const where = ({ offsetX, offsetY }) => [
  (offsetX / $('ink').clientWidth) * 320,
  (offsetY / $('ink').clientHeight) * 320,
];
$('ink').onpointerdown = event => {
  $('ink').setPointerCapture(event.pointerId);
  strokes.push([]);
  move(event);
};
$('ink').onpointermove = event => {
  if (event.buttons && strokes.length) move(event);
};
$('ink').onpointerup = () => {
  if (!busy) read();
};
function move(event) {
  const stroke = strokes.at(-1);
  const point = where(event);
  const from = stroke.at(-1) ?? point;
  stroke.push(point);
  Object.assign(ink, { lineWidth: 24, lineCap: 'round', strokeStyle: '#1c2024' });
  ink.beginPath();
  ink.moveTo(...from);
  ink.lineTo(...point);
  ink.stroke();
}
$('clear').onclick = () => {
  wipe();
  if (!busy) read();
};
$('again').onclick = () => {
  if (!busy) learn().catch(say);
};
async function save() {
  await model.store('digits-page');
  isSaved = true;
  $('status').textContent = 'Saved in this browser.';
}
async function restore() {
  const isThere = await model.recall('digits-page');
  $('status').textContent = isThere ? 'Restored.' : 'Nothing is saved yet.';
  if (isThere) isSaved = true;
  $('acc').textContent = percent(await accuracy());
  await read();
}
$('save').onclick = () => save().catch(say);
$('restore').onclick = () => {
  if (!busy) restore().catch(say);
};
askBeforeLeaving(() => !isSaved);
