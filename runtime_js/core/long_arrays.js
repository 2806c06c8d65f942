// Whole data sets as words.

import { convert } from './arrays.js';
import { inSlices } from './pause.js';
import { elementBytes, WORD_BYTES, wordCount } from './plan.js';

/** @import { Elements, Range } from './plan.js' */

/**
 * As `convert`, for a list of any length.
 * @param {any} list @param {Elements} elements @param {Range | [number, number]} [allowed]
 */
export async function convertInSlices(list, elements, allowed) {
  const { dtype } = elements;
  const words = new Uint32Array(wordCount({ dtype, shape: [list.length] }));
  const isFine = await inSlices(list.length, (from, to) => {
    const part = list.subarray ? list.subarray(from, to) : list.slice(from, to);
    const firstWord = (from * elementBytes(dtype)) / WORD_BYTES;
    const place = words.subarray(firstWord, firstWord + wordCount({ dtype, shape: [to - from] }));
    return convert(part, elements, allowed, place) !== undefined;
  });
  return isFine ? words : undefined;
}
