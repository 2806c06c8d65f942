// Tokens that are found in a text before it is cut into pieces, such as <|endoftext|>.

import { anyOf, classOf } from './patterns.js';

/**
 * @typedef {{id: number, content: string, special: boolean, lstrip: boolean, rstrip: boolean,
 *   normalized: boolean}} AddedToken
 * @typedef {{text: string, id?: number, isFirst: boolean}} Stretch of a text: the token with that
 *   id, or text between tokens; `isFirst`: the text begins with it
 */

/** Tokens that are looked for in the same text. */
export class AddedTokens {
  /** @type {Map<string, AddedToken>} */
  #tokens;
  /** @type {RegExp | undefined} */
  #pattern;
  #space;

  /**
   * @param {AddedToken[]} tokens @param {string} [spaces] the class of blanks
   * @param {(text: string) => string} [normalize] is done to the text in which they are found
   */
  constructor(tokens, spaces, normalize = text => text) {
    this.#tokens = new Map(tokens.map(token => [normalize(token.content), token]));
    this.#pattern = tokens.length ? anyOf(this.#tokens.keys()) : undefined;
    this.#space = classOf(spaces ?? '[ ]');
  }

  /** @param {string} text @param {boolean} isFirst @returns {Generator<Stretch, void, void>} */
  *find(text, isFirst) {
    let end = 0;
    for (const match of this.#pattern ? text.matchAll(this.#pattern) : []) {
      const { id, lstrip, rstrip } = /** @type {AddedToken} */ (this.#tokens.get(match[0]));
      let start = match.index;
      let stop = start + match[0].length;
      // One by one: a pattern for blanks before a place would try each run of blanks in the text.
      while (lstrip && start > end && this.#isSpace(text[start - 1])) start--;
      while (rstrip && stop < text.length && this.#isSpace(text[stop])) stop++;
      if (start > end) yield { text: text.slice(end, start), isFirst: isFirst && end === 0 };
      yield { text: match[0], id, isFirst: false };
      end = stop;
    }
    if (end < text.length) yield { text: text.slice(end), isFirst: isFirst && end === 0 };
  }

  /** @param {string} letter */
  #isSpace(letter) {
    return letter.search(this.#space) === 0;
  }
}
