// The order of rows in an epoch, of any number of rows without blocking a page.

import { inSlices } from '../core/pause.js';
import { randomWords } from '../core/threefry.js';

/** The second key of the shuffle: the CRC-32 of `shuffle`, as names are keys of initial values. */
const SHUFFLE_KEY = 0x33fe5971;
/** Keys are sorted by so many bits at a time, from the lowest. */
const DIGIT_BITS = 11;
const DIGITS = 2 ** DIGIT_BITS;

/**
 * Rows, sorted by random keys; of equal keys the first row comes first.
 * @param {number} seed @param {number} count @param {number} epoch
 */
export async function shuffled(seed, count, epoch) {
  const keys = new Uint32Array(count);
  await inSlices(count, (from, to) => {
    keys.set(randomWords(seed, SHUFFLE_KEY, to - from, epoch, from), from);
  });
  const rows = new Uint32Array(count);
  await inSlices(count, (from, to) => {
    for (let row = from; row < to; row++) rows[row] = row;
  });
  let sorted = { keys, rows };
  for (let bits = 0; bits < 32; bits += DIGIT_BITS) sorted = await sortedByDigit(sorted, bits);
  return sorted.rows;
}

/**
 * One round of a radix sort: rows of equal digits stay in their order. Keys move with their rows:
 * to look them up in memory would take four times as long.
 * @param {{keys: Uint32Array<ArrayBuffer>, rows: Uint32Array<ArrayBuffer>}} given
 * @param {number} bits below the digit
 */
async function sortedByDigit(given, bits) {
  const count = given.rows.length;
  // How many rows have a smaller digit.
  const starts = new Uint32Array(DIGITS + 1);
  await inSlices(count, (from, to) => {
    for (let i = from; i < to; i++) starts[((given.keys[i] >>> bits) & (DIGITS - 1)) + 1]++;
  });
  for (let digit = 0; digit < DIGITS; digit++) starts[digit + 1] += starts[digit];
  const keys = new Uint32Array(count);
  const rows = new Uint32Array(count);
  await inSlices(count, (from, to) => {
    for (let i = from; i < to; i++) {
      const place = starts[(given.keys[i] >>> bits) & (DIGITS - 1)]++;
      keys[place] = given.keys[i];
      rows[place] = given.rows[i];
    }
  });
  return { keys, rows };
}
