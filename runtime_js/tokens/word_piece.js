// WordPiece, as BERT has it: a word is cut into the longest pieces of the vocabulary, from left.
// Mirrors word_pieces.py.

import { fail } from '../core/errors.js';
import { FILE } from './patterns.js';

/** How many words are remembered. */
const MOST_WORDS = 50_000;

export class WordPiece {
  /** @type {Map<string, number[]>} */
  #known = new Map();
  #prefix;
  #longest;
  /** No piece of a word can be longer. */
  #longestToken = 0;
  /** @type {number} */
  #unknown;

  /** @param {any} model of the file */
  constructor(model) {
    /** @type {Map<string, number>} */
    this.ids = new Map(Object.entries(model.vocab));
    /** By id. @type {string[]} */
    this.tokens = [];
    for (const [token, id] of this.ids) {
      this.tokens[id] = token;
      this.#longestToken = Math.max(this.#longestToken, token.length);
    }
    this.#prefix = model.continuing_subword_prefix;
    this.#longest = model.max_input_chars_per_word;
    this.#unknown = this.ids.get(model.unk_token) ?? fail('bundle', FILE, 'has no unknown token');
  }

  /** @param {string} word @returns {Iterable<number[]>} */
  encode(word) {
    const ids = this.#known.get(word) ?? this.#cut([...word]);
    if (this.#known.size < MOST_WORDS) this.#known.set(word, ids);
    return [ids];
  }

  /** @param {string[]} letters */
  #cut(letters) {
    if (letters.length > this.#longest) return [this.#unknown];
    const found = [];
    for (let start = 0; start < letters.length; ) {
      let end = Math.min(letters.length, start + this.#longestToken);
      const prefix = start ? this.#prefix : '';
      const id = () => this.ids.get(prefix + letters.slice(start, end).join(''));
      while (end > start && id() === undefined) end--;
      if (end === start) return [this.#unknown];
      found.push(/** @type {number} */ (id()));
      start = end;
    }
    return found;
  }
}
