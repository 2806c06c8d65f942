// Shows what a GPT attends to while it writes. examples/pages.py builds the page.

import { load, plan } from '../../runtime_js/page/bundle.js';
import { surviveWith } from '../../runtime_js/page/lost_device.js';
import {
  askBeforeLeaving,
  loadingWords,
  problemWords,
  reasonOf,
} from '../../runtime_js/page/problems.js';

const $ = id => document.getElementById(id);
const letters = [...plan.model.vocab];
const [BLOCKS, HEADS, WINDOW] = plan.tensors[plan.entries.look.outputs.attention].shape;
const MOST = 400; // letters of a text
const SHOWN = 8; // bars
const make = (tag, text, parent, properties) =>
  parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }, properties));
const BLANKS = { '\n': 'new line', ' ': 'space' };
const shownLetter = letter => ({ '\n': '⏎', ' ': '␣' })[letter] ?? letter;
let model;
/** One for each letter so far: {letter, attention, probs, isPrompt}. */
let written = [];
/** Which of them is shown in detail; null: the newest. */
let chosen = null;
/** Which head is shown; null: the mean of all. */
let head = null;
/** The text that is being written; a newer one ends it. */
let writing = 0;
let isRunning = false;

load({
  onProgress: progress => {
    $('status').textContent = loadingWords(progress);
  },
}).then(
  async loaded => {
    model = loaded;
    $('work').hidden = false;
    $('status').textContent = `On ${model.adapter.name || 'your GPU'}.`;
    showHeads();
    surviveWith(model, stop, begin);
    await begin();
  },
  error => {
    $('status').textContent = reasonOf(error);
  },
);

/** Reads the prompt. Letters that the model does not know are left out, and named. */
async function begin() {
  const mine = ++writing;
  const prompt = [...$('prompt').value];
  const unknown = [...new Set(prompt.filter(letter => !letters.includes(letter)))];
  $('message').textContent = unknown.length
    ? `It does not know ${unknown.join(' ')}: it learned English letters, digits and signs only.`
    : '';
  written = [];
  chosen = null;
  $('text').replaceChildren();
  $('start').disabled = $('one').disabled = true;
  await model.forget({});
  const known = prompt.filter(letter => letters.includes(letter));
  for (const letter of known.length ? known : ['\n'])
    if (mine === writing) await read(letter, true);
  if (mine === writing) $('start').disabled = $('one').disabled = false;
}

/** The model reads a letter; what it attended to and expects next is kept and shown. */
async function read(letter, isPrompt = false) {
  const mine = writing;
  const { attention, probs } = await model.look({ id: letters.indexOf(letter) });
  // Another text was begun meanwhile.
  if (mine !== writing) return;
  const place = written.length;
  written.push({ letter, attention, probs, isPrompt });
  make('button', letter, $('text'), {
    className: isPrompt ? 'prompt' : '',
    // A blank has no text that could be read aloud.
    ariaLabel: BLANKS[letter] ?? letter,
    onclick: () => {
      chosen = chosen === place ? null : place;
      show();
    },
  });
  show();
}

/** A letter drawn by its probability; a low temperature prefers likely ones. */
function drawn(probs) {
  const temperature = +$('temperature').value;
  const powers = Array.from(probs, p => p ** (1 / temperature));
  let left = Math.random() * powers.reduce((sum, power) => sum + power, 0);
  const found = powers.findIndex(power => {
    left -= power;
    return left <= 0;
  });
  return letters[Math.max(0, found)];
}

async function writeOne() {
  chosen = null;
  await read(drawn(written.at(-1).probs));
}

/** The share of `place`'s attention that goes to each place before it, by place. */
function attended(place) {
  const { attention } = written[place];
  const heads = head === null ? [...Array(BLOCKS * HEADS).keys()] : [head];
  const first = Math.max(0, place - WINDOW + 1);
  return Array.from({ length: place + 1 }, (_, other) => {
    if (other < first) return 0;
    const sum = heads.reduce((sum, h) => sum + attention[h * WINDOW + (other % WINDOW)], 0);
    return sum / heads.length;
  });
}

function show() {
  const place = chosen ?? written.length - 1;
  const shares = attended(place);
  const most = Math.max(...shares);
  [...$('text').children].forEach((button, i) => {
    const share = Math.round((100 * (shares[i] ?? 0)) / most);
    button.style.background = `color-mix(in srgb, var(--accent) ${share}%, transparent)`;
    button.classList.toggle('chosen', i === place);
  });
  showProbs(place);
  drawMap();
}

function showProbs(place) {
  const { probs } = written[place];
  const best = Array.from(probs.keys()).sort((a, b) => probs[b] - probs[a]);
  const next = written[place + 1]?.letter;
  $('probs').replaceChildren();
  for (const id of best.slice(0, SHOWN)) {
    const row = make('div', '', $('probs'), {
      className: letters[id] === next ? 'bar best' : 'bar',
    });
    make('span', shownLetter(letters[id]), row);
    make('i', '', row).style.width = `${100 * probs[id]}%`;
    make('span', `${(100 * probs[id]).toFixed(1)} %`, row);
  }
}

/** The attention of the last letters: a row for each, darker where it looks. */
function drawMap() {
  const canvas = $('map');
  const context = canvas.getContext('2d');
  const last = written.length - 1;
  const first = Math.max(0, written.length - WINDOW);
  const [red, green, blue] = [47, 111, 237];
  const picture = context.createImageData(WINDOW, WINDOW);
  for (let place = first; place <= last; place++) {
    const shares = attended(place);
    const most = Math.max(...shares.slice(first));
    for (let other = first; other <= place; other++)
      picture.data.set(
        [red, green, blue, (255 * shares[other]) / most],
        4 * ((place - first) * WINDOW + other - first),
      );
  }
  context.putImageData(picture, 0, 0);
}

function showHeads() {
  const names = ['all', ...Array.from({ length: BLOCKS * HEADS }, (_, i) => headName(i))];
  names.forEach((name, i) => {
    make('button', name, $('heads'), {
      className: i ? '' : 'chosen',
      onclick: ({ target }) => {
        head = i ? i - 1 : null;
        for (const button of $('heads').children)
          button.classList.toggle('chosen', button === target);
        show();
      },
    });
  });
}

const headName = i => `block ${Math.floor(i / HEADS) + 1}, head ${(i % HEADS) + 1}`;

$('start').onclick = async () => {
  if (isRunning) {
    isRunning = false;
    return;
  }
  isRunning = true;
  $('start').textContent = 'Pause';
  const mine = writing;
  try {
    while (isRunning && mine === writing && written.length < MOST) {
      await writeOne();
      await new Promise(requestAnimationFrame);
    }
  } catch (error) {
    $('status').textContent = problemWords(error);
  } finally {
    isRunning = false;
    $('start').textContent = 'Write';
  }
};
/** Ends a text. */
async function stop() {
  isRunning = false;
}
$('one').onclick = () => {
  if (!isRunning) writeOne().catch(() => {});
};
$('prompt').onchange = begin;
askBeforeLeaving(() => written.some(({ isPrompt }) => !isPrompt));
$('temperature').oninput = () => {
  $('amount').textContent = $('temperature').value;
};
