// Byte-pair encoding of one piece of text.

import { fail } from '../core/errors.js';
import { inSlices } from '../core/pause.js';
import { utf8Of } from './byte_level.js';
import { Merges } from './merge.js';
import { FILE } from './patterns.js';

/** How many pieces are remembered, and how long they may be. */
const MOST_PIECES = 50_000;
const LONGEST_PIECE = 64;

export class Bpe {
  /** @type {Map<string, number[]>} */
  #known = new Map();
  #merges;
  #ignoresMerges;
  #fallsBack;
  #fusesUnknown;
  /** @type {number | undefined} */
  #unknown;
  /**
   * Neighbouring characters inside a token: between others, long pieces are cut.
   * @type {Set<string> | undefined}
   */
  #neighbours;

  /**
   * With pauses, because there may be many tokens.
   * @param {any} model of the file @param {boolean} hasLongPieces
   */
  static async open(model, hasLongPieces) {
    const found = new Bpe(model);
    const { ranks } = model.wgcc;
    if (ranks) await found.#addRanked(ranks);
    else await found.#addListed(model.merges);
    if (hasLongPieces) await found.#addNeighbours();
    return found;
  }

  /** @param {any} model of the file */
  constructor(model) {
    /** @type {Map<string, number>} */
    this.ids = new Map(Object.entries(model.vocab));
    /** By id. @type {string[]} */
    this.tokens = [];
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.#merges = new Merges(this.tokens.length);
    this.#ignoresMerges = model.ignore_merges;
    this.#fallsBack = model.byte_fallback;
    this.#fusesUnknown = model.fuse_unk;
    this.#unknown = this.ids.get(model.unk_token);
  }

  /** @param {[string, string][]} pairs in the order of their ranks */
  #addListed(pairs) {
    return inSlices(pairs.length, (from, to) => {
      for (let rank = from; rank < to; rank++) {
        const [left, right] = pairs[rank];
        this.#add(left, right, rank);
      }
    });
  }

  /** Any two tokens that make a third. @param {number[]} ranks by id */
  #addRanked(ranks) {
    return this.#forEachToken((token, id) => {
      if (!(ranks[id] >= 0)) return;
      for (let at = 1; at < token.length; at++) {
        const [left, right] = [token.slice(0, at), token.slice(at)];
        if (this.ids.has(left) && this.ids.has(right)) this.#add(left, right, ranks[id]);
      }
    });
  }

  /** @param {string} left @param {string} right @param {number} rank */
  #add(left, right, rank) {
    const first = this.ids.get(left);
    const second = this.ids.get(right);
    const id = this.ids.get(left + right);
    if (first === undefined || second === undefined || id === undefined)
      return fail('bundle', FILE, `joins ${left} and ${right}, not all in its vocabulary`);
    this.#merges.add(first, second, { rank, id });
  }

  #addNeighbours() {
    const found = new Set();
    this.#neighbours = found;
    return this.#forEachToken(token => {
      let previous = '';
      for (const letter of token) {
        if (previous) found.add(previous + letter);
        previous = letter;
      }
    });
  }

  /** @param {(token: string, id: number) => void} visit */
  #forEachToken(visit) {
    return inSlices(this.tokens.length, (from, to) => {
      for (let id = from; id < to; id++)
        if (this.tokens[id] !== undefined) visit(this.tokens[id], id);
    });
  }

  /** The ids of its parts. @param {string} piece @returns {Iterable<number[]>} */
  encode(piece) {
    // Only of a whole piece: its parts are merged, even if they are tokens.
    const id = this.#ignoresMerges ? this.ids.get(piece) : undefined;
    if (id !== undefined) return [[id]];
    const isWhole = piece.length <= LONGEST_PIECE || !this.#neighbours;
    return isWhole ? [this.#encodePart(piece)] : this.#encodeLong(piece);
  }

  /**
   * Cut where no token can reach across: so text without blanks, too, is encoded word by word.
   * @param {string} piece
   */
  *#encodeLong(piece) {
    let part = '';
    let previous = '';
    for (const letter of piece) {
      if (previous && this.#isApart(previous, letter)) {
        yield this.#encodePart(part);
        part = '';
      }
      part += letter;
      previous = letter;
    }
    yield this.#encodePart(part);
  }

  /** @param {string} left @param {string} right */
  #isApart(left, right) {
    const { ids } = this;
    return ids.has(left) && ids.has(right) && !this.#neighbours?.has(left + right);
  }

  /** @param {string} part */
  #encodePart(part) {
    const known = this.#known.get(part);
    if (known) return known;
    const ids = this.#merges.apply(this.#symbols(part));
    if (part.length <= LONGEST_PIECE && this.#known.size < MOST_PIECES) this.#known.set(part, ids);
    return ids;
  }

  /** The ids of single characters. @param {string} piece */
  #symbols(piece) {
    /** @type {number[]} */
    const found = [];
    const unknown = this.#unknown ?? 0;
    // An unknown character is written when the next known one comes, so that several can be one.
    let isUnknown = false;
    for (const letter of piece) {
      const id = this.ids.get(letter);
      const bytes = id === undefined && this.#bytesOf(letter);
      if (bytes) {
        found.push(...bytes);
        continue;
      }
      const isKnown = id !== undefined;
      if (isUnknown && (isKnown || !this.#fusesUnknown)) found.push(unknown);
      if (isKnown) found.push(id);
      isUnknown = !isKnown && this.#unknown !== undefined;
    }
    if (isUnknown) found.push(unknown);
    return found;
  }

  /** The tokens of its bytes, if there is one for each. @param {string} letter */
  #bytesOf(letter) {
    if (!this.#fallsBack) return;
    const ids = Array.from(utf8Of(letter), byte => {
      const digits = byte.toString(16).toUpperCase().padStart(2, '0');
      return this.ids.get(`<0x${digits}>`);
    });
    if (!ids.includes(undefined)) return /** @type {number[]} */ (ids);
  }
}
