// Carts that balance poles while they learn to. examples/pages.py builds the page.

import { plan } from '../../runtime_js/page/bundle.js';
import { LiveTraining } from '../../runtime_js/page/live_training.js';
import { cleared, speedText } from '../../runtime_js/page/plot.js';

const $ = id => document.getElementById(id);
const [CARTS] = plan.tensors['shown.at'].shape;
/** Pushes of all carts that learn, in one step of eight. */
const PUSHES = 8 * plan.tensors['player.game.at'].shape[0];
const HEIGHT = 90; // pixels
const NARROW = 560;
const TRACK = 2.4; // metres to either side
const POLE = 1;
const MOVES_A_SECOND = 50;
/** The games and pushes of the last reports. */
let results = [];
let length = 0;

/** The mean length of the games that ended since the tenth report before this one. */
function numbers({ step, outputs: { games, moves }, ms }) {
  if (games < results.at(-1)?.[0]) results = [];
  results = [...results.slice(-10), [games, moves]];
  const [oldGames, oldMoves] = results[0];
  if (games > oldGames) length = (moves - oldMoves) / (games - oldGames);
  return {
    length: Math.round(length).toString(),
    made: (step * PUSHES).toLocaleString('en'),
    speed: speedText((1000 * PUSHES) / ms),
  };
}

async function show(model) {
  const { at } = await model.watch({});
  const canvas = $('carts');
  const columns = canvas.clientWidth < NARROW ? 2 : 4;
  canvas.dataset.height = HEIGHT * Math.ceil(CARTS / columns);
  const { context, style } = cleared(canvas);
  const width = canvas.clientWidth / columns;
  for (let i = 0; i < CARTS; i++) {
    context.save();
    context.translate((i % columns) * width, Math.floor(i / columns) * HEIGHT);
    drawCart(context, style, width, at[4 * i], at[4 * i + 2]);
    context.restore();
  }
}

function drawCart(context, style, width, x, angle) {
  const metre = (0.9 * width) / (2 * TRACK);
  const [middle, ground] = [width / 2 + x * metre, HEIGHT - 16];
  context.fillStyle = style.getPropertyValue('--line');
  context.fillRect(0.05 * width, ground + 6, 0.9 * width, 2);
  context.fillStyle = style.getPropertyValue('--soft');
  context.fillRect(middle - 14, ground - 6, 28, 12);
  context.strokeStyle = style.getPropertyValue(Math.abs(angle) > 0.1 ? '--warm' : '--accent');
  context.lineWidth = 5;
  context.lineCap = 'round';
  context.beginPath();
  context.moveTo(middle, ground - 6);
  const reach = Math.min(POLE * metre, HEIGHT - 30);
  context.lineTo(middle + reach * Math.sin(angle), ground - 6 - reach * Math.cos(angle));
  context.stroke();
}

const training = new LiveTraining({
  every: 10,
  range: [0, 500],
  show,
  numbers,
  curve: () => length,
});
training.animate(() => MOVES_A_SECOND);
