// Arrays of words that finished calls have left, for the inputs of the next: to get new memory from
// the system takes 20 times as long as to fill it, in Chromium 0.2 ms for a batch of images.

/** @import { NamedWords, Words } from './arrays.js' */

/** Of the calls that ended last. @type {Words[]} */
let spare = [];
/** A batch may also hold words of a whole data set, which stay as they are. */
const taken = new WeakSet();

/** Words with any contents, to be overwritten. @param {number} length @returns {Words} */
export function takeWords(length) {
  const at = spare.findIndex(words => words.length === length);
  const words = at < 0 ? new Uint32Array(length) : spare.splice(at, 1)[0];
  taken.add(words);
  return words;
}

/** @param {NamedWords[]} batches that nobody reads any more */
export function leaveWords(batches) {
  spare = batches.flatMap(batch => Object.values(batch).filter(words => taken.has(words)));
}
