// A picture that sharpens while a network learns it. examples/pages.py builds the page.

import { plan } from '../../runtime_js/page/bundle.js';
import { LiveTraining } from '../../runtime_js/page/live_training.js';

const $ = id => document.getElementById(id);
const [BATCH] = plan.tensors['train/at'].shape;
const [SIDE] = plan.tensors['paint/colour'].shape;
const SOURCE = 128;
/** All of the picture: from -1 to 1. */
const WHOLE = { left: -1, top: -1, span: 2 };
const SMALLEST = 0.05;
let view = WHOLE;
let dots;

/** Colours from -1 to 1, of what is on the canvas of the source. */
function read() {
  const { data } = $('source').getContext('2d').getImageData(0, 0, SOURCE, SOURCE);
  dots = Float32Array.from({ length: 3 * SOURCE * SOURCE }, (_, i) => {
    const dot = Math.floor(i / 3);
    return data[4 * dot + (i % 3)] / 127.5 - 1;
  });
}

/** Evening at a lake: something to begin with. */
function drawLake(context) {
  const sky = context.createLinearGradient(0, 0, 0, 80);
  sky.addColorStop(0, '#27306b');
  sky.addColorStop(0.6, '#d9622b');
  sky.addColorStop(1, '#ffd27a');
  context.fillStyle = sky;
  context.fillRect(0, 0, SOURCE, SOURCE);
  context.fillStyle = '#fff3c4';
  context.beginPath();
  context.arc(84, 58, 12, 0, 7);
  context.fill();
  for (const [x, height, colour] of [
    [20, 44, '#3b2a5c'],
    [60, 30, '#2a2148'],
    [112, 38, '#1e1938'],
  ]) {
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x - 48, 80);
    context.lineTo(x, 80 - height);
    context.lineTo(x + 48, 80);
    context.fill();
  }
  context.fillStyle = '#12345a';
  context.fillRect(0, 80, SOURCE, 48);
  context.fillStyle = '#ffb86b';
  for (let row = 0; row < 7; row++) context.fillRect(78 - 3 * row, 84 + 6 * row, 12 + 6 * row, 2);
}

/** Random dots of the picture. */
function batch() {
  const at = new Float32Array(2 * BATCH);
  const colour = new Float32Array(3 * BATCH);
  for (let i = 0; i < BATCH; i++) {
    const dot = Math.floor(Math.random() * SOURCE * SOURCE);
    at[2 * i] = (2 * ((dot % SOURCE) + 0.5)) / SOURCE - 1;
    at[2 * i + 1] = (2 * (Math.floor(dot / SOURCE) + 0.5)) / SOURCE - 1;
    colour.set(dots.subarray(3 * dot, 3 * dot + 3), 3 * i);
  }
  return { at, colour };
}

async function show(model) {
  const { colour } = await model.paint(view);
  const picture = new ImageData(SIDE, SIDE);
  for (let i = 0; i < SIDE * SIDE; i++) {
    for (let channel = 0; channel < 3; channel++)
      picture.data[4 * i + channel] = 127.5 * (colour[3 * i + channel] + 1);
    picture.data[4 * i + 3] = 255;
  }
  $('painted').getContext('2d').putImageData(picture, 0, 0);
}

const training = new LiveTraining({
  batch,
  every: 20,
  show,
  // Colours reach from -1 to 1, so that the square of the signal is 4.
  numbers: ({ loss }) => ({ likeness: `${(10 * Math.log10(4 / loss)).toFixed(1)} dB` }),
});

/** Half of what is seen now, around a point whose shares of the picture are given. */
function zoom(across, down) {
  const span = Math.max(SMALLEST, view.span / 2);
  const between = share => Math.min(Math.max(share * view.span - span / 2, 0), view.span - span);
  view = { left: view.left + between(across), top: view.top + between(down), span };
  training.again();
}
$('painted').onclick = ({ offsetX, offsetY, target }) =>
  zoom(offsetX / target.clientWidth, offsetY / target.clientHeight);
$('nearer').onclick = () => zoom(0.5, 0.5);
$('whole').onclick = () => {
  view = WHOLE;
  training.again();
};

/** The middle of a picture, as large as there is room. */
async function take(file) {
  try {
    const picture = await createImageBitmap(file);
    const side = Math.min(picture.width, picture.height);
    const [left, top] = [(picture.width - side) / 2, (picture.height - side) / 2];
    $('source').getContext('2d').drawImage(picture, left, top, side, side, 0, 0, SOURCE, SOURCE);
    read();
    $('status').textContent = `${file.name}: press Train, and it becomes a network.`;
  } catch {
    $('status').textContent = `${file.name} is no picture that this browser can read.`;
  }
}
$('file').onchange = ({ target }) => target.files[0] && take(target.files[0]);
$('work').ondragover = event => {
  event.preventDefault();
  $('work').classList.add('over');
};
$('work').ondragleave = () => $('work').classList.remove('over');
$('work').ondrop = event => {
  event.preventDefault();
  $('work').classList.remove('over');
  if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
};

drawLake($('source').getContext('2d', { willReadFrequently: true }));
read();
