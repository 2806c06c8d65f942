// Text as pieces, which are encoded one by one: words with the blank before them, numbers, signs.

import { toByteCharacters } from './byte_level.js';
import { checkedSteps, checkGrowth, longestFrom } from './growth.js';
import { stepOf } from './normalize.js';
import { patternOf } from './patterns.js';

/**
 * @typedef {(text: string, isFirst: boolean) => Iterable<string>} Splitter `isFirst`: whether the
 *   whole text begins here; what it drops is an empty piece
 * @typedef {[string, boolean]} Part of a text, and whether it is a match
 * @typedef {(parts: Iterable<Part>) => Iterable<string>} Behavior
 */

/** @type {Record<string, (step: any) => Splitter>} */
const SPLITTERS = {
  Split: splitter,
  Prefix: () => text => [text.startsWith(' ') ? text : ` ${text}`],
  Metaspace: metaspace,
  ByteLevel: () => text => [toByteCharacters(text)],
};

/** What happens to matches. @type {Record<string, Behavior>} */
const BEHAVIORS = {
  *Isolated(parts) {
    for (const [text] of parts) yield text;
  },
  *Removed(parts) {
    for (const [text, isMatch] of parts) yield isMatch ? '' : text;
  },
  Contiguous: parts => joined(parts, (isMatch, wasMatch) => isMatch === wasMatch),
  MergedWithPrevious: parts => joined(parts, (isMatch, wasMatch) => isMatch && !wasMatch),
  MergedWithNext: parts => joined(parts, (isMatch, wasMatch) => wasMatch && !isMatch),
};

/**
 * The pieces after all steps.
 * @param {any[]} steps @returns {(text: string, isFirst: boolean) => Iterable<string>}
 */
export function piecesOf(steps) {
  const all = checkedSteps(steps).map(step => stepOf(SPLITTERS, step));
  return (text, isFirst) => pieces(all, 0, text, isFirst, longestFrom(text.length));
}

/**
 * @param {Splitter[]} all @param {number} at @param {string} text @param {boolean} isFirst
 * @param {number} most characters of a piece
 * @returns {Generator<string, void, void>}
 */
function* pieces(all, at, text, isFirst, most) {
  checkGrowth(text.length, most);
  if (at === all.length) {
    yield text;
    return;
  }
  let isStart = isFirst;
  for (const piece of all[at](text, isFirst)) {
    if (piece) yield* pieces(all, at + 1, piece, isStart, most);
    isStart = false;
  }
}

/** @param {any} step @returns {Splitter} */
function splitter({ pattern, behavior, invert }) {
  const found = patternOf(pattern);
  const behave = stepOf(
    Object.fromEntries(Object.entries(BEHAVIORS).map(([type, value]) => [type, () => value])),
    { type: behavior },
  );
  return text => behave(partsOf(text, found, invert));
}

/** @param {any} step @returns {Splitter} */
function metaspace({ replacement, prepend, split }) {
  return (text, isFirst) => {
    const found = text.replaceAll(' ', replacement);
    const isPrefixed = prepend === 'always' || (prepend === 'first' && isFirst);
    const whole = isPrefixed && !found.startsWith(replacement) ? replacement + found : found;
    if (!split) return [whole];
    const [before, ...after] = whole.split(replacement);
    const words = after.map(word => replacement + word);
    return before ? [before, ...words] : words;
  };
}

/**
 * Matches of a pattern, and what is between them.
 * @param {string} text @param {RegExp} pattern @param {boolean} invert swaps the two
 * @returns {Generator<Part, void, void>}
 */
function* partsOf(text, pattern, invert) {
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) yield [text.slice(end, match.index), invert];
    yield [match[0], !invert];
    end = match.index + match[0].length;
  }
  if (end < text.length) yield [text.slice(end), invert];
}

/**
 * @param {Iterable<Part>} parts
 * @param {(isMatch: boolean, wasMatch: boolean) => boolean} isJoined whether a part continues the
 *   one before
 */
function* joined(parts, isJoined) {
  let piece = '';
  let wasMatch = false;
  for (const [text, isMatch] of parts) {
    if (piece && isJoined(isMatch, wasMatch)) piece += text;
    else {
      if (piece) yield piece;
      piece = text;
    }
    wasMatch = isMatch;
  }
  if (piece) yield piece;
}
