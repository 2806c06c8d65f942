// Patterns of a tokenizer file. The compiler has written out their classes of characters, so that
// they mean the same in every engine, whichever version of Unicode it knows.

import { fail } from '../core/errors.js';

/** The file that all messages are about. */
export const FILE = 'tokenizer.json';

/** @param {any} pattern @returns {RegExp} */
export function patternOf(pattern) {
  try {
    return new RegExp(pattern, 'gu');
  } catch {
    return fail('bundle', FILE, `has a pattern that is none: ${pattern}. Build the bundle again`);
  }
}

/** What finds any of some words, the longest at a place. @param {Iterable<string>} words */
export function anyOf(words) {
  const longestFirst = [...words].sort((a, b) => b.length - a.length);
  return patternOf(longestFirst.map(escaped).join('|'));
}

/** @param {string} word */
function escaped(word) {
  return word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
