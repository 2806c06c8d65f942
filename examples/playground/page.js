// A decision surface that moves while the network trains. examples/pages.py builds the page.

import { load, plan } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import { lossText, plot, speedText } from '../../runtime_js/page/plot.js';
import { askBeforeLeaving, problemWords, reasonOf } from '../../runtime_js/page/problems.js';

const $ = id => document.getElementById(id);
const BATCH = plan.tensors['train/class'].shape[0];
const SIDE = Math.sqrt(plan.tensors['surface/point'].shape[0]);
const REACH = 1.4;
/** Colours that people who do not see red or green can also tell apart; each class has a form, too. */
const COLOURS = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
];
const NAMES = ['blue ●', 'orange ■', 'green ▲'];
const RADIUS = 4.5; // of a point, in pixels
const grid = Float32Array.from({ length: 2 * SIDE * SIDE }, (_, i) => {
  const k = i >> 1;
  return (
    REACH *
    (i % 2 ? 1 - (2 * (Math.floor(k / SIDE) + 0.5)) / SIDE : (2 * ((k % SIDE) + 0.5)) / SIDE - 1)
  );
});
const noise = () => 0.12 * (Math.random() + Math.random() - 1);
const shapes = {
  moons: i => {
    const t = Math.PI * Math.random();
    const up = i % 2;
    return [
      up ? 0.5 + Math.cos(t) * 0.8 - 0.1 : -0.3 + Math.cos(t) * 0.8,
      up ? 0.25 - Math.sin(t) * 0.8 : Math.sin(t) * 0.8 - 0.25,
      up,
    ];
  },
  spiral: i => {
    const r = Math.random() * 1.1 + 0.1;
    const c = i % 3;
    const t = 4.2 * r + c * 2.0944;
    return [r * Math.cos(t), r * Math.sin(t), c];
  },
  circles: i => {
    const c = i % 3;
    const r = 0.15 + 0.45 * c;
    const t = 2 * Math.PI * Math.random();
    return [r * Math.cos(t), r * Math.sin(t), c];
  },
};
let model;
let points = scatter('moons');
/** Whether some of them were set by the visitor. */
let isOwn = false;
let colour = 0;
let history = [];
let running = null;
/** Resolves when the last training has ended. */
let ended = Promise.resolve();
let surface = null;

function scatter(shape) {
  return Array.from({ length: 240 }, (_, i) => {
    const [x, y, c] = shapes[shape](i);
    return [x + noise(), y + noise(), c];
  });
}

NAMES.forEach((name, i) => {
  const button = $('classes').appendChild(
    Object.assign(document.createElement('button'), {
      textContent: name,
      className: i ? '' : 'chosen',
    }),
  );
  button.onclick = () => {
    colour = i;
    [...$('classes').children].forEach((other, j) => {
      other.className = i === j ? 'chosen' : '';
    });
  };
});

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

async function show() {
  surface = (await model.surface({ point: grid })).probs;
  draw();
}

function draw() {
  const canvas = $('plane');
  const context = canvas.getContext('2d');
  const picture = new ImageData(SIDE, SIDE);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches ? 20 : 255;
  for (let i = 0; i < SIDE * SIDE; i++) {
    for (let channel = 0; channel < 3; channel++) {
      const mixed = COLOURS.reduce((sum, rgb, c) => sum + rgb[channel] * surface[3 * i + c], 0);
      picture.data[4 * i + channel] = dark + (mixed - dark) * 0.5;
    }
    picture.data[4 * i + 3] = 255;
  }
  const small = new OffscreenCanvas(SIDE, SIDE);
  small.getContext('2d').putImageData(picture, 0, 0);
  context.drawImage(small, 0, 0, 420, 420);
  context.strokeStyle = '#fff';
  for (const [x, y, c] of points) {
    context.fillStyle = `rgb(${COLOURS[c]})`;
    context.beginPath();
    outline(context, c, 210 * (1 + x / REACH), 210 * (1 - y / REACH));
    context.fill();
    context.stroke();
  }
  showReady();
}

/** A disc, a square or a triangle. */
function outline(context, c, x, y) {
  if (c === 0) return context.arc(x, y, RADIUS, 0, 7);
  if (c === 1) return context.rect(x - RADIUS, y - RADIUS, 2 * RADIUS, 2 * RADIUS);
  context.moveTo(x, y - 1.3 * RADIUS);
  context.lineTo(x + 1.2 * RADIUS, y + RADIUS);
  context.lineTo(x - 1.2 * RADIUS, y + RADIUS);
  context.closePath();
}

/** Without points there is nothing to learn. */
function showReady() {
  $('hint').hidden = points.length > 0;
  $('start').disabled = !points.length;
  if (!points.length) running?.abort();
}

/** A batch of the current points. */
function sample() {
  const point = new Float32Array(2 * BATCH);
  const label = new Int32Array(BATCH);
  for (let i = 0; i < BATCH; i++) {
    const [x, y, c] = points[Math.floor(Math.random() * points.length)];
    point.set([x, y], 2 * i);
    label[i] = c;
  }
  return { point, class: label };
}

async function train() {
  running = new AbortController();
  $('start').textContent = 'Stop';
  try {
    for await (const { step, loss, outputs, ms } of model.fit(sample, {
      steps: 1e9,
      every: 10,
      signal: running.signal,
    })) {
      history.push([step, loss]);
      if (history.length > 400) history.splice(0, 100);
      $('step').textContent = step;
      $('loss').textContent = lossText(loss);
      $('acc').textContent = `${Math.round(100 * outputs.acc)} %`;
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
for (const button of document.querySelectorAll('[data-points]'))
  button.onclick = () => {
    points = scatter(button.dataset.points);
    isOwn = false;
    $('status').textContent = `${points.length} points.`;
    draw();
  };
$('empty').onclick = () => {
  points = [];
  isOwn = false;
  draw();
};
$('plane').onpointerdown = ({ offsetX, offsetY }) => {
  const size = $('plane').clientWidth;
  for (let i = 0; i < 3; i++)
    points.push([
      REACH * ((2 * offsetX) / size - 1) + noise(),
      REACH * (1 - (2 * offsetY) / size) + noise(),
      colour,
    ]);
  isOwn = true;
  draw();
};

askBeforeLeaving(() => running || history.length || isOwn);

/** Points of a table, moved and scaled to fit. */
async function take(file) {
  try {
    const { arrays, rows, notes } = await model.readData(file);
    points = fitted(
      Array.from(arrays.class, (c, i) => [...arrays.point.subarray(2 * i, 2 * i + 2), c]),
    );
    $('status').textContent = [`${rows} points from ${file.name}.`, ...notes].join(' ');
    draw();
  } catch (error) {
    $('status').textContent = problemWords(error);
  }
}

/** The same points, centred and as large as there is room. */
function fitted(list) {
  const [x0, y0] = [0, 1].map(axis => list.reduce((sum, row) => sum + row[axis], 0) / list.length);
  const distances = list.map(([x, y]) => Math.max(Math.abs(x - x0), Math.abs(y - y0)));
  const scale = 1.2 / Math.max(...distances, 1e-9);
  return list.map(([x, y, c]) => [(x - x0) * scale, (y - y0) * scale, c]);
}

$('file').onchange = ({ target }) => take(target.files[0]);
$('plane').ondragover = event => {
  event.preventDefault();
  $('plane').className = 'over';
};
$('plane').ondragleave = () => {
  $('plane').className = '';
};
$('plane').ondrop = event => {
  event.preventDefault();
  $('plane').className = '';
  take(event.dataTransfer.files[0]);
};
