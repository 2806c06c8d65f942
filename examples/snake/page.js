// Many boards on which snakes play while they learn. examples/pages.py builds the page.

import { plan } from '../../runtime_js/page/bundle.js';
import { LiveTraining } from '../../runtime_js/page/live_training.js';
import { cleared, speedText } from '../../runtime_js/page/plot.js';

const $ = id => document.getElementById(id);
/** Boards and their cells, as the model has them. */
const [BOARDS, CELLS] = plan.tensors['shown.age'].shape;
const SIDE = Math.sqrt(CELLS);
/** Moves of all snakes that learn, in one step of eight. */
const MOVES = 8 * plan.tensors['player.game.age'].shape[0];
/** Games that the share of won ones is about: the last ones. */
const RECENT = 1000;
const GAP = 10;
const NARROW = 560; // pixels
/** Games and won games, after each report. */
let results = [[0, 0]];
let boards;

/** The share of the last games that were won. */
function shareWon() {
  const [games, wins] = results.at(-1);
  const [oldGames, oldWins] = results.findLast(([old]) => old <= games - RECENT) ?? results[0];
  return (wins - oldWins) / Math.max(games - oldGames, 1);
}

function numbers({ step, outputs, ms }) {
  results.push([outputs.games, outputs.wins]);
  if (results.length > 1000) results = results.filter((_, i) => i % 2);
  return {
    won: `${Math.round(100 * shareWon())} %`,
    made: `${((step * MOVES) / 1e6).toFixed(2)} M`,
    speed: speedText((1000 * MOVES) / ms),
  };
}

/** One more move on each board. */
async function show(model) {
  boards = await model.watch({});
  draw();
}

function draw() {
  const canvas = $('boards');
  const columns = canvas.clientWidth < NARROW ? 4 : 8;
  const size = (canvas.clientWidth - GAP * (columns - 1)) / columns;
  canvas.dataset.height = (size + GAP) * (BOARDS / columns) - GAP;
  const { context, style } = cleared(canvas);
  for (let i = 0; i < BOARDS; i++) {
    context.save();
    context.translate((i % columns) * (size + GAP), Math.floor(i / columns) * (size + GAP));
    context.scale(size / SIDE, size / SIDE);
    drawBoard(context, style, i * CELLS);
    context.restore();
  }
}

/** A board whose cells begin at `from`; a cell is one unit wide. */
function drawBoard(context, style, from) {
  const { age, food, place } = boards;
  const middle = i => [(place[i] % SIDE) + 0.5, Math.floor(place[i] / SIDE) + 0.5];
  context.fillStyle = style.getPropertyValue('--paper');
  context.fillRect(0, 0, SIDE, SIDE);
  const cells = Array.from({ length: CELLS }, (_, i) => from + i);
  const body = cells.filter(i => age[i] > 0).sort((a, b) => age[a] - age[b]);
  context.lineCap = context.lineJoin = 'round';
  context.lineWidth = 0.62;
  context.strokeStyle = style.getPropertyValue('--accent');
  context.beginPath();
  for (const i of body) context.lineTo(...middle(i));
  context.stroke();
  context.fillStyle = style.getPropertyValue('--ink');
  disc(context, middle(body.at(-1)), 0.2);
  context.fillStyle = style.getPropertyValue('--warm');
  for (const i of cells) if (food[i] > 0) disc(context, middle(i), 0.28);
}

function disc(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
}

const training = new LiveTraining({
  every: 5,
  range: [0, 1],
  show,
  numbers,
  curve: shareWon,
  forget: () => {
    results = [[0, 0]];
  },
});
training.animate(() => +$('pace').value);
