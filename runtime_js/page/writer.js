// Text, one character or token after the other: for models with a vocabulary and an entry that reads
// the id of one and returns the next.

import { ownOf } from '../core/records.js';
import { plan } from './bundle.js';
import { $, guarded, h, put, show } from './elements.js';
import { unknownWords } from './input_text.js';
import { inputsOf, outputOf } from './ports.js';
import { others, page } from './state.js';

const LETTERS = 200;
/** Of a text that is written while the model learns: its letters and milliseconds, at most. */
const LETTERS_WHILE_LEARNING = 120;
const MOST_WRITING = 2000;
/** Milliseconds between such texts; of the time, the share that they may take. */
const WRITE_EVERY = 3000;
const WRITE_SHARE = 0.1;

/** The entry that writes, whether it takes a temperature, and the entry that forgets what was read. */
function findWriter() {
  const name = ['decode', ...others].find(entry => others.includes(entry) && writesText(entry));
  if (!name) return;
  const { inputs, writes } = plan.entries[name];
  const forget = others.find(entry => isForgetting(entry, writes));
  return { name, forget, isTempered: Boolean(ownOf(inputs, 'temperature')) };
}
/** @param {string} entry */
const writesText = entry =>
  inputsOf(entry).some(({ isText, size }) => isText && size === 1) &&
  Object.keys(plan.entries[entry].outputs)
    .map(key => outputOf(entry, key))
    .some(({ isFloat, tensor }) => !isFloat && tensor.shape.every(length => length === 1));
/** Whether an entry without inputs changes only what the writing entry changes. @param {string} entry @param {string[]} written */
function isForgetting(entry, written) {
  const { inputs, writes } = plan.entries[entry];
  return !Object.keys(inputs).length && writes.length && writes.every(id => written.includes(id));
}

export const writer = findWriter();
/** The text that is being written. @type {AbortController | null} */
let writing = null;
/** When the last one was begun and ended; what resolves when it has. */
let wroteFrom = 0;
let wroteTo = 0;
let textEnded = Promise.resolve();

export function write(most = LETTERS) {
  textEnded = writeText(most);
  return textEnded;
}
/** @param {number} most */
async function writeText(most) {
  stopWriting();
  const prompt = $('prompt').value || '\n';
  if (!drawWarning(prompt)) return;
  const mine = new AbortController();
  const text = document.createTextNode('');
  writing = mine;
  wroteFrom = performance.now();
  put('written', [h('b', prompt.trimStart()), text]);
  put('write', 'Stop');
  try {
    for await (const letter of await letters(prompt, most, mine.signal)) text.data += letter;
  } finally {
    wroteTo = performance.now();
    if (writing === mine) stopWriting();
  }
}
/** Whether the model knows all characters of a prompt. @param {string} prompt */
function drawWarning(prompt) {
  const warning = unknownWords(prompt);
  put('prompt-warning', warning);
  return !warning;
}

/** @param {string} prompt @param {number} most @param {AbortSignal} signal */
async function letters(prompt, most, signal) {
  const { name, forget, isTempered } = writer ?? {};
  if (forget) await page.model.call(forget, {});
  const temperature = isTempered ? { temperature: Number($('temperature').value) } : {};
  return page.model.generate(prompt, { entry: name, steps: most, signal, ...temperature });
}

/**
 * While the model learns, so that one sees it learn. The training waits meanwhile: between its steps
 * a text would take many times as long.
 */
export async function writeNowAndThen() {
  const pause = Math.max(WRITE_EVERY, (wroteTo - wroteFrom) / WRITE_SHARE);
  const isAsked = Boolean(writing);
  if (!isAsked && performance.now() - wroteTo < pause) return;
  if (!isAsked) guarded(() => write(LETTERS_WHILE_LEARNING))(null);
  const enough = isAsked ? 0 : setTimeout(stopWriting, MOST_WRITING);
  const stop = page.running?.signal;
  stop?.addEventListener('abort', stopWriting);
  await textEnded.catch(() => {});
  stop?.removeEventListener('abort', stopWriting);
  clearTimeout(enough);
}

export function stopWriting() {
  writing?.abort();
  writing = null;
  put('write', 'Write');
}

export function writerControls() {
  show({ 'temperature-choice': writer?.isTempered });
  $('write').onclick = guarded(() => (writing ? stopWriting() : write()));
  $('prompt').oninput = () => drawWarning($('prompt').value);
  $('temperature').oninput = () => put('temperature-shown', $('temperature').value);
}
