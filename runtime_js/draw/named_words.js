// Random words by name.

import { randomWords } from '../core/threefry.js';
import { crc32 } from '../files/crc32.js';

/**
 * Words that depend only on seed, name, step and their position.
 * @param {number} seed @param {string} name @param {number} count @param {number} [step]
 */
export function namedWords(seed, name, count, step) {
  return randomWords(seed, keyOf(name), count, step);
}

/** The second key of the words of a name. @param {string} name */
export function keyOf(name) {
  return crc32(new TextEncoder().encode(name));
}
