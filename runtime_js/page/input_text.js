// Inputs that are text, typed into a box: characters or tokens of the model's vocabulary.

import { plan } from './bundle.js';
import { h, put } from './elements.js';
import { countOf, hasTokens, textUnit } from './ports.js';
import { page } from './state.js';

/** @import { Editor } from './input_fields.js' */
/** @import { Input } from './ports.js' */

/** What the model calls its characters; none if it has tokens. */
const vocabulary = typeof plan.model.vocab === 'string' ? [...plan.model.vocab] : [];
/** See `model.tokens()`; only for models that have tokens. @type {any} */
let tokens = null;

/** Loads the tokens of the model, if it has some. */
export async function openTokens() {
  if (hasTokens) tokens = await page.model.tokens();
}

/** @param {string} text @returns {number[]} */
const idsOfText = text =>
  tokens
    ? tokens.encode(text, { special: false })
    : [...text].map(letter => Math.max(0, vocabulary.indexOf(letter)));
/** @param {number[]} ids @returns {string} */
export const textOfIds = ids =>
  tokens ? tokens.decode(ids, { special: true }) : ids.map(id => vocabulary[id]).join('');

/** What is said about characters that the model does not know; '' if it knows all. @param {string} text */
export function unknownWords(text) {
  const unknown = hasTokens ? [] : [...new Set(text)].filter(one => !vocabulary.includes(one));
  if (!unknown.length) return '';
  const shown = unknown.map(letter => `“${letter}”`).join(', ');
  return `The model does not know ${shown}: it has ${countOf(vocabulary.length, 'character')}.`;
}

/** @param {Input} input @param {() => any} changed @returns {Editor} */
export function makeTextBox({ key, size }, changed) {
  const box = h('textarea', '', { rows: 3, id: `text-${key}` });
  if (!hasTokens) box.maxLength = size;
  const warning = h('p', '', { className: 'warning', role: 'alert' });
  box.oninput = () => {
    const unknown = unknownWords(box.value);
    put(warning, unknown || lengthWords(idsOfText(box.value).length, size));
    if (!unknown) changed();
  };
  const label = [`${key}, up to ${countOf(size, textUnit)}`, box];
  return {
    elements: [h('label', label, { className: 'field note' }), warning],
    /** The end of the row repeats the last character or token. */
    row() {
      const ids = idsOfText(box.value);
      return Array.from({ length: size }, (_, i) => ids[Math.min(i, ids.length - 1)] ?? 0);
    },
    set(row) {
      box.value = textOfIds(row);
    },
  };
}
/** @param {number} count @param {number} size */
const lengthWords = (count, size) =>
  count > size ? `This is ${countOf(count, textUnit)}: the model reads the first ${size}.` : '';
