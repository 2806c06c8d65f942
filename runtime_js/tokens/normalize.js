// What is done to text before tokens are looked for.

import { fail } from '../core/errors.js';
import { toByteCharacters } from './byte_level.js';
import { checkedSteps, checkGrowth, longestFrom } from './growth.js';
import { FILE, patternOf } from './patterns.js';

/** @typedef {(text: string) => string} Normalizer */

/** By type: a function of the step that makes the normalizer. @type {Record<string, (step: any) => Normalizer>} */
const NORMALIZERS = {
  NFC: () => text => text.normalize('NFC'),
  NFD: () => text => text.normalize('NFD'),
  NFKC: () => text => text.normalize('NFKC'),
  NFKD: () => text => text.normalize('NFKD'),
  // Letter by letter: JavaScript would write a sigma at the end of a word in another way.
  Lowercase: () => text =>
    text
      .split('Σ')
      .map(part => part.toLowerCase())
      .join('σ'),
  Prepend:
    ({ text: prefix }) =>
    text =>
      text && prefix + text,
  Replace: replacement,
  ByteLevel: () => toByteCharacters,
};

/** All steps in order. @param {any[]} steps @returns {Normalizer} */
export function normalizerOf(steps) {
  const all = checkedSteps(steps).map(step => stepOf(NORMALIZERS, step));
  return text => {
    const most = longestFrom(text.length);
    return all.reduce((found, normalize) => {
      const changed = normalize(found);
      checkGrowth(changed.length, most);
      return changed;
    }, text);
  };
}

/** @param {any} step @returns {Normalizer} */
export function replacement({ pattern, text: content }) {
  const found = patternOf(pattern);
  return text => {
    const most = longestFrom(text.length);
    let added = 0;
    // A function, because `$` has a meaning in a text.
    return text.replace(found, () => {
      added += content.length;
      // Before the texts are put together, which would need the memory.
      checkGrowth(added, most);
      return content;
    });
  };
}

/**
 * What a step of the file does.
 * @template T @param {Record<string, (step: any) => T>} known @param {any} step @returns {T}
 */
export function stepOf(known, step) {
  const make = Object.hasOwn(known, step?.type) && known[step.type];
  return make ? make(step) : fail('bundle', FILE, `has an unknown step: ${JSON.stringify(step)}`);
}
