// Digits that come out of noise while a network learns them. examples/pages.py builds the page.

import { readTensors } from '../../runtime_js/files/safetensors.js';
import { files, plan } from '../../runtime_js/page/bundle.js';
import { LiveTraining } from '../../runtime_js/page/live_training.js';

const $ = id => document.getElementById(id);
const [BATCH] = plan.tensors['train/label'].shape;
const [ROUNDS, SHOWN, DOTS] = plan.tensors['make/pictures'].shape;
const SIDE = Math.sqrt(DOTS);
const CLASSES = 10;
/** Dots from one digit to the next: there is one between them. */
const PITCH = SIDE + 1;
const data = readTensors(files['../digits/train.safetensors'], 'train').tensors;
const digit = Int32Array.from({ length: SHOWN }, (_, i) => i % CLASSES);
let noise = drawNoise();
let pictures;
let recognised = 0;

/** Normal numbers, by the method of Box and Muller. */
function drawNoise() {
  return Float32Array.from({ length: SHOWN * DOTS }, () => {
    const size = Math.sqrt(-2 * Math.log(1 - Math.random()));
    return size * Math.cos(2 * Math.PI * Math.random());
  });
}

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
  const made = await model.make({ noise, digit });
  ({ pictures } = made);
  recognised = digit.filter((wanted, i) => made.read[i] === wanted).length / SHOWN;
  $('read').textContent = `${Math.round(100 * recognised)} %`;
  draw();
}

/** The round that the slider is at: dark dots on white, or the other way in the dark. */
function draw() {
  const context = $('made').getContext('2d');
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const picture = context.createImageData($('made').width, $('made').height);
  for (let i = 0; i < SHOWN * DOTS; i++) {
    const [tile, dot] = [Math.floor(i / DOTS), i % DOTS];
    const column = PITCH * (tile % CLASSES) + 1 + (dot % SIDE);
    const row = PITCH * Math.floor(tile / CLASSES) + 1 + Math.floor(dot / SIDE);
    const ink = 127.5 * (pictures[$('round').value * SHOWN * DOTS + i] + 1);
    const place = 4 * (row * picture.width + column);
    picture.data.fill(dark ? ink : 255 - ink, place, place + 3);
    picture.data[place + 3] = 255;
  }
  context.putImageData(picture, 0, 0);
}

const training = new LiveTraining({ batch, every: 20, show });

$('round').max = $('round').value = ROUNDS - 1;
$('round').oninput = () => pictures && draw();
$('again').onclick = () => {
  noise = drawNoise();
  training.again();
};
