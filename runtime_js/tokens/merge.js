// Joins neighbouring tokens, always the pair of lowest rank, of several the leftmost, until none can
// be joined.

import { Heap } from './heap.js';

/** @typedef {{rank: number, id: number}} Merge of two tokens into the one with that id */

/** Positions below this fit beside a rank into an exact number. */
const POSITIONS = 2 ** 28;
const NONE = -1;

export class Merges {
  /** By the ids of a pair. @type {Map<number, Merge>} */
  #merges = new Map();
  #size;

  /** @param {number} size one more than the largest id */
  constructor(size) {
    this.#size = size;
  }

  /** @param {number} left @param {number} right @param {Merge} merge */
  add(left, right, merge) {
    this.#merges.set(left * this.#size + right, merge);
  }

  /** @param {number} left @param {number} right */
  #of(left, right) {
    return this.#merges.get(left * this.#size + right);
  }

  /** @param {number[]} ids @returns {number[]} */
  apply(ids) {
    if (ids.length < 2) return ids;
    // A linked list: joining two takes the right one out.
    const found = Array.from(ids);
    const before = found.map((_, i) => i - 1);
    const after = found.map((_, i) => (i + 1 < found.length ? i + 1 : NONE));
    const due = new Heap();
    const consider = (/** @type {number} */ at) => {
      const merge = this.#of(found[at], found[after[at]]);
      if (merge) due.push(merge.rank * POSITIONS + at, merge.id);
    };
    for (let at = 0; at + 1 < found.length; at++) consider(at);
    while (due.pop()) {
      const at = due.key % POSITIONS;
      const right = after[at];
      // One of the two may have been joined with another since.
      if (found[at] === NONE || right === NONE) continue;
      if (this.#of(found[at], found[right])?.id !== due.value) continue;
      found[at] = due.value;
      found[right] = NONE;
      after[at] = after[right];
      if (after[at] !== NONE) {
        before[after[at]] = at;
        consider(at);
      }
      if (before[at] !== NONE) consider(before[at]);
    }
    return found.filter(id => id !== NONE);
  }
}
