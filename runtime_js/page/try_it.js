// The card where a person tries the model: an entry that does not train, inputs that suit it, and
// what it returns.

import { plan } from './bundle.js';
import { $, guarded, h, put, show } from './elements.js';
import { exampleOf } from './examples.js';
import { evaluator } from './held_out.js';
import { makeClassList, makeFields, makeOneHotList } from './input_fields.js';
import { makePicture } from './input_picture.js';
import { makeTextBox, openTokens } from './input_text.js';
import { drawManyRows, predictManyRows } from './many_rows.js';
import { curvePorts, drawOutputs, drawPredictionCurve } from './outputs.js';
import {
  arrayOf,
  inputOf,
  inputsOf,
  inputWords,
  isOneHot,
  MOST_FIELDS,
  preparation,
  timesOf,
} from './ports.js';
import { makeSourceFields } from './source_fields.js';
import { others, page } from './state.js';
import { stopWriting, write, writeNowAndThen, writer, writerControls } from './writer.js';

/** @import { Editor } from './input_fields.js' */
/** @import { Input } from './ports.js' */

/** The choice that is no entry: see writer.js. */
const WRITE = 'write text';

const tryIt = {
  /** By input. @type {Record<string, Editor>} */
  editors: {},
  seed: 1,
  isBusy: false,
  isStale: false,
  /** What the names of the fields were made for. @type {any} */
  prepared: undefined,
};
/** @returns {string} */
const chosen = () => $('entry').value;
const isWriting = () => chosen() === WRITE;

/** Fields for the chosen entry, with a row of the data. */
function choose() {
  for (const editor of Object.values(tryIt.editors)) editor.close?.();
  tryIt.editors = {};
  tryIt.prepared = preparation();
  for (const id of ['inputs', 'outputs', 'pictures-table']) put(id, []);
  show({ curve: false, writer: isWriting(), 'numbers-in': !isWriting() });
  stopWriting();
  if (isWriting()) return;
  makeInputs(chosen());
  showExample();
}

/** @param {string} entry */
function makeInputs(entry) {
  const inputs = inputsOf(entry);
  const refreshed = guarded(refresh);
  tryIt.editors = Object.fromEntries(
    inputs.map(input => [input.key, editorOf(input)(input, () => refreshed(null))]),
  );
  put(
    'inputs',
    Object.values(tryIt.editors).flatMap(({ elements }) => elements),
  );
  put('takes', inputs.length ? `Takes ${inputs.map(inputWords).join(' and ')}.` : 'Takes nothing.');
  show({ run: plan.entries[entry].writes.length, other: inputs.length });
  drawManyRows(entry);
}

/** What makes the editor of an input. @param {Input} input */
function editorOf(input) {
  const { row, size, range, isText, hasRows, picture, prepared } = input;
  if (isText && row.length) return makeTextBox;
  if (isOneHot(input)) return makeOneHotList;
  if (hasRows && picture && !range) return makePicture;
  if (range && size === 1 && range.high < 100) return makeClassList;
  if (prepared?.sources && prepared.sources.length <= MOST_FIELDS) return makeSourceFields;
  return size <= MOST_FIELDS ? makeFields : makeFixed;
}
/** Inputs too long to type: a row of the data. @param {Input} input @returns {Editor} */
function makeFixed(input) {
  /** @type {number[]} */
  let numbers = [];
  const text = `${input.key}: ${inputWords(input)}, from the data`;
  return {
    elements: [h('p', text, { className: 'note' })],
    row: () => numbers,
    set(row) {
      numbers = row;
    },
  };
}

function showExample() {
  const { rows, target } = exampleOf(chosen(), tryIt.seed++);
  for (const [key, editor] of Object.entries(tryIt.editors)) editor.set(rows[key]);
  put('target-shown', target === undefined ? '' : `In the data: ${target}.`);
  return guarded(refresh)(null);
}

/** The inputs of an entry; it gets one row, or as many equal ones as it takes. @param {string} entry */
function inputsNow(entry) {
  const arrays = Object.entries(tryIt.editors).map(([key, editor]) => {
    const row = editor.row();
    const input = inputOf(entry, key);
    const times = input.hasRows ? timesOf(entry) : 1;
    return [key, arrayOf(input, times * row.length, i => row[i % row.length])];
  });
  return Object.fromEntries(arrays);
}

async function predict() {
  const entry = chosen();
  const inputs = inputsNow(entry);
  const ports = curvePorts(entry);
  if (ports) await drawPredictionCurve(ports);
  const outputs = await page.model.call(entry, inputs);
  if (entry === chosen()) drawOutputs(entry, outputs);
}
/** Predicts again, unless that would change the model's state; what comes meanwhile waits. */
async function refresh() {
  if (!others.length || isWriting() || plan.entries[chosen()].writes.length) return;
  tryIt.isStale = true;
  if (tryIt.isBusy) return;
  tryIt.isBusy = true;
  try {
    while (tryIt.isStale) {
      tryIt.isStale = false;
      await predict();
    }
  } finally {
    tryIt.isBusy = false;
  }
}

/** Entries that a person chooses from: not those that other cards use. */
function choices() {
  const inner = [evaluator, writer?.name, writer?.forget];
  const shown = others.filter(name => !inner.includes(name));
  return writer ? [WRITE, ...shown] : shown;
}

async function openCard() {
  await openTokens();
  const names = choices();
  put(
    'entry',
    names.map(name => h('option', name, { selected: name === 'predict' })),
  );
  show({ entry: names.length > 1, try: names.length });
  if (!names.length) return;
  choose();
  if (isWriting()) guarded(() => write())(null);
}

/** The model's values are others, and so may be the names of its inputs. */
function drawAgain() {
  if (!choices().length) return;
  if (isWriting()) guarded(() => write())(null);
  else if (tryIt.prepared !== preparation()) choose();
  else return refresh();
}

/** @param {ClipboardEvent} event */
function takePasted({ clipboardData }) {
  const files = [...(clipboardData?.files ?? [])];
  const file = files.find(({ type }) => type.startsWith('image'));
  const editor = Object.values(tryIt.editors).find(({ take }) => take);
  if (file && editor) return editor.take?.(file);
}

export function tryCard() {
  page.when('loaded', openCard);
  page.when('data', () => {
    if ($('entry').options.length) choose();
  });
  page.when('learned', () => (isWriting() ? writeNowAndThen() : refresh()));
  page.when('look', refresh);
  page.when('values', drawAgain);
  // Predictions that change with each step are too many to be read aloud.
  page.when('running', () => {
    $('outputs').setAttribute('aria-live', page.running ? 'off' : 'polite');
  });
  $('entry').onchange = choose;
  $('other').onclick = showExample;
  $('run').onclick = guarded(predict);
  $('many-run').onclick = $('many-decimal').onchange = guarded(() => predictManyRows(chosen()));
  document.addEventListener('paste', guarded(takePasted));
  writerControls();
}
