// Text as ids of tokens, and ids as text: what a bundle's tokenizer.json says, in the way of the
// package `tokenizers`. Mirrors tokens.py.

import { fail } from '../core/errors.js';
import { AddedTokens } from './added.js';
import { Bpe } from './bpe.js';
import { decoderOf } from './decode.js';
import { normalizerOf } from './normalize.js';
import { piecesOf } from './split.js';
import { TokenStream } from './stream.js';
import { WordPiece } from './word_piece.js';

/** @import { AddedToken } from './added.js' */
/** @typedef {{special?: boolean}} ShownOption whether special tokens are shown */
/**
 * @typedef {{special?: boolean | 'before'}} AddedOption whether the tokens that begin and end a text
 *   are added, or only those that begin it
 */

/** What stands alone of the two halves of a character, which has no UTF-8. */
const HALF = /\p{Surrogate}/gu;

export class Tokenizer {
  /** Text to pieces, and tokens to text. */
  #normalize;
  #pieces;
  #decode;
  #words;
  /** Found in a text, and in a normalized text. */
  #raw;
  #normalized;
  /** By id. @type {Map<number, {text: string, isSpecial: boolean}>} */
  #added = new Map();
  #before;
  #after;

  /** @param {any} file the content of tokenizer.json */
  static async open(file) {
    if (file.model.type === 'WordPiece') return new Tokenizer(file, new WordPiece(file.model));
    const splitters = file.model.wgcc.pre_tokenizer;
    const isSplit = splitters.some((/** @type {any} */ { type, split = true }) =>
      type === 'Metaspace' ? split : type === 'Split',
    );
    return new Tokenizer(file, await Bpe.open(file.model, !isSplit));
  }

  /** @param {any} file @param {Bpe | WordPiece} words encodes pieces */
  constructor({ added_tokens: added, model }, words) {
    const { normalizer, pre_tokenizer: splitters, decoder, special, spaces, ranks } = model.wgcc;
    this.#normalize = normalizerOf(normalizer);
    this.#pieces = piecesOf(splitters);
    this.#decode = decoderOf(decoder);
    this.#words = words;
    /** llama2.c finds no special tokens in a text. @type {AddedToken[]} */
    const found = ranks ? [] : added;
    const isNormalized = (/** @type {AddedToken} */ token) => token.normalized;
    this.#raw = new AddedTokens(
      found.filter(token => !isNormalized(token)),
      spaces,
    );
    this.#normalized = new AddedTokens(found.filter(isNormalized), spaces, this.#normalize);
    this.#addTokens(added);
    this.#before = special.before;
    this.#after = special.after;
    /** One more than the largest id. */
    this.size = this.#words.tokens.length;
    for (const id of this.#added.keys()) this.size = Math.max(this.size, id + 1);
  }

  /**
   * A token that is looked for in normalized text is shown as it is found there.
   * @param {AddedToken[]} added
   */
  #addTokens(added) {
    const special = new Set(added.filter(token => token.special).map(token => token.content));
    for (const { id, content, normalized } of added) {
      const text = normalized ? this.#normalize(content) : content;
      this.#added.set(id, { text, isSpecial: special.has(text) });
    }
  }

  /**
   * The ids of a text, with those that the model expects around it.
   * @param {string} text @param {AddedOption} [options] @returns {number[]}
   */
  encode(text, { special = true } = {}) {
    const ids = [];
    for (const piece of this.encodePieces(text)) for (const id of piece) ids.push(id);
    const before = special ? this.#before : [];
    return [...before, ...ids, ...(special === true ? this.#after : [])];
  }

  /**
   * The ids of a long text piece by piece, so that a page can pause.
   * @param {string} given @returns {Generator<number[], void, void>}
   */
  *encodePieces(given) {
    for (const raw of this.#raw.find(checkedText(given).replace(HALF, '\ufffd'), true)) {
      if (raw.id !== undefined) {
        yield [raw.id];
        continue;
      }
      for (const { text, id, isFirst } of this.#normalized.find(
        this.#normalize(raw.text),
        raw.isFirst,
      ))
        if (id !== undefined) yield [id];
        else for (const piece of this.#pieces(text, isFirst)) yield* this.#words.encode(piece);
    }
  }

  /**
   * The text of ids; those that are none are left out.
   * @param {Iterable<number>} ids @param {ShownOption} [options]
   */
  decode(ids, { special = false } = {}) {
    const tokens = [];
    for (const id of checkedIds(ids)) {
      const added = this.#added.get(id);
      const text = added ? added.text : this.#words.tokens[id];
      if (text !== undefined && (special || !added?.isSpecial)) tokens.push(text);
    }
    return this.#decode(tokens);
  }

  /**
   * The text of ids that come one by one.
   * @param {number[]} [context] ids before them
   */
  stream(context = []) {
    return new TokenStream(this, context);
  }
}

/** @param {any} text @returns {string} */
function checkedText(text) {
  return typeof text === 'string' ? text : fail('text', 'text', `is a string, not ${typeof text}`);
}

/** @param {any} ids @returns {Iterable<number>} */
function* checkedIds(ids) {
  if (typeof ids?.[Symbol.iterator] !== 'function') fail('text', 'ids', 'are a list of ids');
  for (const id of ids)
    if (Number.isInteger(id)) yield id;
    else fail('text', 'ids', `are whole numbers, not ${String(id)}`);
}
