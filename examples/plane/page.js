// A plane whose every place is a picture. examples/pages.py builds the page.

import { readTensors } from '../../runtime_js/files/safetensors.js';
import { files, plan } from '../../runtime_js/page/bundle.js';
import { LiveTraining } from '../../runtime_js/page/live_training.js';

const $ = id => document.getElementById(id);
const [BATCH] = plan.tensors['train/label'].shape;
const [SIDE, , DOTS] = plan.tensors['survey/pictures'].shape;
const [SHOWN] = plan.tensors['find/image'].shape;
const WIDTH = Math.sqrt(DOTS);
/** The plane is drawn from -REACH to REACH, as in the model. */
const REACH = 2.4;
const PIXELS = $('plane').width;
const FRAME = 24; // around the place where one is, in pixels
const STRIDE = 0.1; // of an arrow key
const data = readTensors(files['../digits/train.safetensors'], 'train').tensors;
let at = [0, 0];
let pictures;
let known = [];

function batch() {
  const image = new Uint8Array(BATCH * DOTS);
  const label = new Int32Array(BATCH);
  for (let i = 0; i < BATCH; i++) {
    const row = Math.floor(Math.random() * data.label.length);
    image.set(data.image.subarray(row * DOTS, (row + 1) * DOTS), i * DOTS);
    label[i] = data.label[row];
  }
  return { image, label };
}

async function show(model) {
  const survey = await model.survey({});
  ({ pictures } = survey);
  $('kinds').textContent = `${new Set(survey.read).size} of 10`;
  const places = await model.find({ image: data.image.subarray(0, SHOWN * DOTS) });
  known = Array.from({ length: SHOWN }, (_, i) => [places.at[2 * i], places.at[2 * i + 1]]);
  drawPlane();
  await showHere(model);
}

const inkOf = share => (matchMedia('(prefers-color-scheme: dark)').matches ? share : 1 - share);

/** One picture, a square of dots. @param {number} from its first dot */
function tile(dots, from) {
  const picture = new ImageData(WIDTH, WIDTH);
  for (let i = 0; i < DOTS; i++) {
    picture.data.fill(255 * inkOf(dots[from + i]), 4 * i, 4 * i + 3);
    picture.data[4 * i + 3] = 255;
  }
  return picture;
}

function drawPlane() {
  const canvas = $('plane');
  const context = canvas.getContext('2d');
  const all = new OffscreenCanvas(SIDE * WIDTH, SIDE * WIDTH);
  const small = all.getContext('2d');
  for (let i = 0; i < SIDE * SIDE; i++)
    small.putImageData(tile(pictures, i * DOTS), WIDTH * (i % SIDE), WIDTH * Math.floor(i / SIDE));
  context.imageSmoothingEnabled = false;
  context.drawImage(all, 0, 0, canvas.width, canvas.height);
  if ($('known').checked)
    for (const [i, place] of known.entries()) drawKnown(context, place, data.label[i]);
  const style = getComputedStyle(canvas);
  context.strokeStyle = style.getPropertyValue('--warm');
  context.lineWidth = 3;
  context.strokeRect(...pixelsOf(at).map(pixel => pixel - FRAME / 2), FRAME, FRAME);
}

/** The digit itself, where its picture is. */
function drawKnown(context, place, digit) {
  context.font = 'bold 15px system-ui, sans-serif';
  context.fillStyle = `hsl(${36 * digit} 85% 48%)`;
  context.fillText(digit, ...pixelsOf(place));
}

/** The middle of the first and last picture are at -REACH and REACH. */
const pixelsOf = place =>
  place.map(value => ((value / REACH + 1) / 2) * PIXELS * (1 - 1 / SIDE) + PIXELS / SIDE / 2);

async function showHere(model) {
  const { picture } = await model.walk({ at: Float32Array.from(at) });
  $('here').getContext('2d').putImageData(tile(picture, 0), 0, 0);
}

const training = new LiveTraining({ batch, every: 20, show });

function go(across, down) {
  at = [across, down].map(value => Math.max(-REACH, Math.min(REACH, value)));
  training.again();
}
const follow = ({ offsetX, offsetY, buttons, pointerType, target }) => {
  if (pointerType !== 'mouse' && !buttons) return;
  const placeOf = pixel => REACH * ((2 * pixel) / target.clientWidth - 1);
  go(placeOf(offsetX), placeOf(offsetY));
};
$('plane').onpointerdown = $('plane').onpointermove = follow;
$('plane').onkeydown = event => {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (!way[event.key]) return;
  event.preventDefault();
  go(...way[event.key].map((step, axis) => at[axis] + STRIDE * step));
};
$('known').onchange = () => training.again();
