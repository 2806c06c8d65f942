// How text becomes ids, and an id its character: by the model's `vocab`, or as bytes of UTF-8 if
// there are 256 ids. Mirrors writing.py.

import { rangeOf } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { ownOf } from '../core/records.js';

/** @import { Plan } from '../core/plan.js' */
/**
 * @typedef {object} Alphabet
 * @property {(text: string) => number[]} read @property {(id: number) => string} spell
 */

const BYTES = 256;

/**
 * @param {Plan} plan @param {string} entryName @param {string} taken the input for an id
 * @returns {Alphabet}
 */
export function alphabetOf({ entries, model }, entryName, taken) {
  const letters = [...(model.vocab ?? '')];
  const count = idCount(ownOf(entries[entryName].ranges, taken));
  if (!letters.length && count === BYTES) return bytesOfText();
  if (!letters.length)
    fail(
      'text',
      entryName,
      'reads ids, and the model does not say which character each is: add `vocab = "…"` to it, ' +
        'with one character for each id from 0',
    );
  if (count !== undefined && count !== letters.length)
    fail('text', entryName, `takes ids from 0 to ${count - 1}, \`vocab\` has ${letters.length}`);
  return { read: text => numbered(text, letters), spell: id => letters[id] ?? '\ufffd' };
}

/**
 * How many ids there are. If they are shifted, or bounded on one side only, a range does not tell.
 * @param {any} range
 */
function idCount(range) {
  const { low, high } = rangeOf(range ?? { low: 1, high: 0 });
  return low === 0 && high < 2 ** 31 - 1 ? high + 1 : undefined;
}

/** @returns {Alphabet} */
function bytesOfText() {
  const decoder = new TextDecoder();
  return {
    read: text => Array.from(new TextEncoder().encode(text)),
    spell: id => decoder.decode(Uint8Array.of(id), { stream: true }),
  };
}

/** @param {string} text @param {string[]} letters */
function numbered(text, letters) {
  const ids = new Map(letters.map((letter, id) => [letter, id]));
  const unknown = new Set([...text].filter(letter => !ids.has(letter)));
  const shown = [...unknown].slice(0, 9).map(letter => `'${letter}'`);
  if (unknown.size)
    fail('text', 'prompt', `holds ${shown.join(', ')}, not in the model's vocabulary`);
  return [...text].map(letter => ids.get(letter) ?? 0);
}
