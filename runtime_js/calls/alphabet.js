// How text becomes ids, and ids text: by the characters or the tokens of the model's `vocab`, or as
// bytes of UTF-8 if there are 256 ids. Mirrors writing.py.

import { rangeOf } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { part } from '../core/parts.js';
import { ownOf } from '../core/records.js';
import { chunkOf } from './prefill.js';

/** @import { Bundle } from '../core/loader.js' */
/** @import { Plan } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */
/** @template T @typedef {T | Promise<T>} Soon a worker asks its page */
/**
 * @typedef {object} Alphabet
 * @property {number} size one more than the largest id
 * @property {(text: string, options?: {special?: boolean | 'before'}) => Soon<number[]>} encode
 * @property {(ids: Iterable<number>) => Soon<string>} decode
 * @property {(context: number[]) => Soon<AlphabetStream>} stream the text of ids that come one by one
 * @typedef {{push: (id: number) => Soon<string>, end: () => Soon<string>}} AlphabetStream
 */

const BYTES = 256;

/** Those of bundles that were asked for. @type {WeakMap<Bundle, Promise<Alphabet>>} */
const opened = new WeakMap();

/** `model.tokens()`. @param {Session} session @returns {Promise<Alphabet>} */
export function tokens({ bundle }) {
  return tokensOf(bundle);
}

/** By the `vocab` of a bundle. @param {Bundle} bundle @returns {Promise<Alphabet>} */
export async function tokensOf(bundle) {
  const { model } = bundle.plan;
  if (!model.vocab) fail('text', 'tokens', `need a \`vocab\`, which ${model.name} does not have`);
  if (typeof model.vocab === 'string') return lettersOf(model.vocab);
  const opening = opened.get(bundle) ?? openTokens(bundle);
  opened.set(bundle, opening);
  // After a failure, as of a network, it is tried again.
  opening.catch(() => opened.delete(bundle));
  return opening;
}

/** @param {Bundle} bundle */
async function openTokens(bundle) {
  return (await codeOf(bundle)).openTokens(bundle.plan.model.vocab, bundle.tokenizer);
}

/** What bundles with tokens have for them. @param {Bundle} bundle @returns {Promise<any>} */
function codeOf(bundle) {
  return part(
    bundle.tokens?.() ?? Promise.reject(Error('wgcc/tokens.js, for the tokens of its `vocab`')),
  );
}

/** `model.chat(options)`. @param {Bundle} bundle @param {any} model @param {any} options */
export async function openChat(bundle, model, options) {
  return (await codeOf(bundle)).openChat(model, options, chunkOf(bundle.plan, 'decode').size);
}

/**
 * That of an entry, which must take every id.
 * @param {Bundle} bundle @param {string} entryName @param {string} taken the input for an id
 * @returns {Promise<Alphabet>}
 */
export async function alphabetOf(bundle, entryName, taken) {
  /** @type {Plan} */
  const { entries, model } = bundle.plan;
  const count = idCount(ownOf(entries[entryName].ranges, taken));
  if (!model.vocab && count === BYTES) return bytesOfText();
  if (!model.vocab)
    fail(
      'text',
      entryName,
      'reads ids, and the model does not say which character each is: add `vocab = "…"` to it, ' +
        'with one character for each id from 0',
    );
  const size = typeof model.vocab === 'string' ? [...model.vocab].length : model.vocab.size;
  // Tables of tokens are often larger, so that their sizes are round.
  const isRight = typeof model.vocab === 'string' ? count === size : (count ?? size) >= size;
  if (count !== undefined && !isRight)
    fail('text', entryName, `takes ids from 0 to ${count - 1}, \`vocab\` has ${size}`);
  return tokensOf(bundle);
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
  return {
    size: BYTES,
    encode: text => Array.from(new TextEncoder().encode(text)),
    decode: ids => new TextDecoder().decode(Uint8Array.from(ids)),
    stream() {
      const decoder = new TextDecoder();
      return {
        push: id => decoder.decode(Uint8Array.of(id), { stream: true }),
        // A character that never came to its end is not written.
        end: () => '',
      };
    },
  };
}

/** @param {string} vocab @returns {Alphabet} */
function lettersOf(vocab) {
  const letters = [...vocab];
  const spell = (/** @type {number} */ id) => letters[id] ?? '\ufffd';
  return {
    size: letters.length,
    encode: text => numbered(text, letters),
    decode: ids => Array.from(ids, spell).join(''),
    stream: () => ({ push: spell, end: () => '' }),
  };
}

/** @param {any} text @param {string} name @returns {string} */
export function checkedText(text, name) {
  return typeof text === 'string' ? text : fail('text', name, `is a string, not ${typeof text}`);
}

/** @param {string} given @param {string[]} letters */
function numbered(given, letters) {
  const text = checkedText(given, 'text');
  const ids = new Map(letters.map((letter, id) => [letter, id]));
  const unknown = new Set([...text].filter(letter => !ids.has(letter)));
  const shown = [...unknown].slice(0, 9).map(letter => `'${letter}'`);
  if (unknown.size)
    fail('text', 'prompt', `holds ${shown.join(', ')}, not in the model's vocabulary`);
  return [...text].map(letter => ids.get(letter) ?? 0);
}
