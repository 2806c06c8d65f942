// Patterns of a tokenizer file. The compiler has written out their classes of characters, so that
// they mean the same in every engine, whichever version of Unicode it knows.

import { fail } from '../core/errors.js';
import { checkClass, checkPattern } from './pattern_cost.js';

/** The file that all messages are about. */
export const FILE = 'tokenizer.json';

/** @param {any} pattern @returns {RegExp} */
export function patternOf(pattern) {
  try {
    checkPattern(pattern);
    return new RegExp(pattern, 'gu');
  } catch (/** @type {any} */ error) {
    const shown = `${pattern}`.slice(0, 60);
    const text = `has a pattern that cannot be used (${error.message}): ${shown}`;
    return fail('bundle', FILE, `${text}. Build the bundle again`);
  }
}

/** For white space, which is compared character by character. @param {any} pattern */
export function classOf(pattern) {
  checkClass(pattern);
  return patternOf(pattern);
}

/** What finds any of some words, the longest at a place. @param {Iterable<string>} words */
export function anyOf(words) {
  const longestFirst = [...words].sort((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map(escaped).join('|'), 'gu');
}

/** @param {string} word */
function escaped(word) {
  return word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
