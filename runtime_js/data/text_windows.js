// Text as windows of ids of characters or tokens, for models with a `vocab`. Mirrors text_windows.py.

import { fail } from '../core/errors.js';
import { forEachIndex, forEachItem } from './pause.js';
import { Data } from './result.js';
import { checkRows, otherInputs } from './rows_left.js';
import { shown } from './source.js';
import { linesOf } from './text_lines.js';

/** @import { EntryForm, ModelForm } from './form.js' */
/** @import { Options } from './options.js' */
/** @import { Source } from './source.js' */
/** @import { Chunks } from './text_lines.js' */

/**
 * Whether the entry's rows are ids of characters, in one input or two of equal shape.
 * @param {ModelForm} form @param {EntryForm} entry
 */
export function readsText(form, entry) {
  const ports = entry.rows.map(name => entry.inputs[name]);
  if (!form.vocab || ports.length < 1 || ports.length > 2) return false;
  return ports.every(
    ({ isFloat, shape }) => !isFloat && shape.length === 2 && `${shape}` === `${ports[0].shape}`,
  );
}

/**
 * @param {Chunks} chunks @param {Source} source @param {ModelForm} form @param {EntryForm} entry
 * @param {Options} options
 */
export async function readText(chunks, source, form, entry, options) {
  const others = otherInputs(entry, options.values ?? {}, source);
  const isTokens = typeof form.vocab !== 'string';
  const ids = isTokens
    ? await idsOfTokens(chunks, form)
    : await idsOf(chunks, /** @type {string} */ (form.vocab), source, options);
  const [first, second] = entry.rows;
  const size = entry.inputs[first].rowSize;
  const length = size + (second ? 1 : 0);
  if (ids.length < length) {
    source.refuse(isTokens ? 'short-tokens' : 'short-text', { count: ids.length, length });
  }
  const starts = windowStarts(ids.length, length);
  checkRows(source, entry, starts.length);
  /** @type {Record<string, any>} */
  const arrays = {};
  for (const [shift, name] of entry.rows.entries()) {
    const array = new Int32Array(starts.length * size);
    await forEachIndex(starts.length, i => {
      for (let at = 0; at < size; at++) array[i * size + at] = ids[starts[i] + shift + at];
    });
    arrays[name] = Object.assign(array, { shape: [starts.length, size] });
  }
  const inputs = Object.fromEntries(entry.rows.map(name => [name, { kind: 'text' }]));
  const { missing = 'drop' } = options;
  return new Data({
    arrays: { ...arrays, ...others },
    preparation: { version: 1, inputs, target: second ?? null, missing },
    rows: starts.length,
    withRows: entry.rows,
    notes: source.notes,
  });
}

/** The whole text is encoded as one. @param {Chunks} chunks @param {ModelForm} form */
async function idsOfTokens(chunks, { tokens }) {
  if (!tokens) return fail('text', 'tokens', 'need the model that they belong to');
  const tokenizer = await tokens();
  /** @type {number[]} */
  const ids = [];
  await forEachItem(tokenizer.encodePieces([...linesOf(chunks)].join('\n')), piece => {
    for (const id of piece) ids.push(id);
  });
  return ids;
}

/**
 * The ids of all characters; line ends become `\n`.
 * @param {Chunks} chunks @param {string} vocab @param {Source} source @param {Options} options
 */
async function idsOf(chunks, vocab, source, options) {
  const known = new Map(Array.from(vocab, (letter, id) => [letter, id]));
  /** @type {number[]} */
  const ids = [];
  let unknown = 0;
  let first = { letter: '', line: 0, column: 0 };
  let line = 1;
  let column = 1;
  await forEachItem(lettersOf(chunks), letter => {
    const id = known.get(letter);
    if (id !== undefined) ids.push(id);
    else if (!unknown++) first = { letter, line, column };
    column++;
    if (letter !== '\n') return;
    line++;
    column = 1;
  });
  if (unknown && options.unknown !== 'drop') {
    const values = { cell: shown(first.letter), count: unknown };
    source.refuse('unknown-character', values, first.line, first.column);
  }
  if (unknown) source.note('letters-unknown', { count: unknown });
  return ids;
}

/** @param {Chunks} chunks */
function* lettersOf(chunks) {
  let isFirst = true;
  for (const line of linesOf(chunks)) {
    if (!isFirst) yield '\n';
    isFirst = false;
    yield* line;
  }
}

/**
 * Each window starts with the last id of the one before; the last one ends with the text.
 * @param {number} count of ids @param {number} length of a window
 */
function windowStarts(count, length) {
  const last = count - length;
  const starts = [];
  for (let start = 0; start <= last; start += Math.max(1, length - 1)) starts.push(start);
  if (starts[starts.length - 1] !== last) starts.push(last);
  return starts;
}
