// Tokens as text.

import { fromByteCharacters } from './byte_level.js';
import { checkedSteps, checkGrowth, longestFrom } from './growth.js';
import { replacement, stepOf } from './normalize.js';

/** @typedef {(tokens: string[]) => string[]} Decoder */

/** @type {Record<string, (step: any) => Decoder>} */
const DECODERS = {
  ByteLevel: () => tokens => [fromByteCharacters(tokens)],
  Replace: step => {
    const replace = replacement(step);
    return tokens => tokens.map(replace);
  },
  ByteFallback: () => withBytes,
  Fuse: () => tokens => [tokens.join('')],
  Strip:
    ({ text, start, stop }) =>
    tokens =>
      tokens.map(token => stripped(token, text, start, stop)),
  Metaspace:
    ({ replacement: blank, prepend }) =>
    tokens =>
      tokens.map((token, i) => token.replaceAll(blank, i || prepend === 'never' ? ' ' : '')),
  WordPiece:
    ({ prefix }) =>
    tokens =>
      tokens.map((token, i) => {
        if (!i) return token;
        return token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
      }),
  Spaces: () => tokens => [tokens.join(' ')],
};

/** All steps in order. @param {any[]} steps @returns {(tokens: string[]) => string} */
export function decoderOf(steps) {
  const all = checkedSteps(steps).map(step => stepOf(DECODERS, step));
  const lengthOf = (/** @type {string[]} */ tokens) =>
    tokens.reduce((sum, token) => sum + token.length, 0);
  return tokens => {
    const most = longestFrom(lengthOf(tokens));
    const decoded = all.reduce((found, decode) => {
      const changed = decode(found);
      checkGrowth(lengthOf(changed), most);
      return changed;
    }, tokens);
    return decoded.join('');
  };
}

const BYTE = /^<0x([0-9A-Fa-f]{2})>$/;
const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Tokens that stand for bytes become the text of those bytes. @param {string[]} tokens */
function withBytes(tokens) {
  /** @type {string[]} */
  const found = [];
  /** @type {number[]} */
  let bytes = [];
  const flush = () => {
    // Not all at once: a call takes a limited number of arguments.
    if (bytes.length) for (const text of textOfBytes(bytes)) found.push(text);
    bytes = [];
  };
  for (const token of tokens) {
    const [, digits] = token.match(BYTE) ?? [];
    if (digits) bytes.push(Number.parseInt(digits, 16));
    else {
      flush();
      found.push(token);
    }
  }
  flush();
  return found;
}

/** If they are no UTF-8, a sign for each. @param {number[]} bytes */
function textOfBytes(bytes) {
  try {
    return [strictDecoder.decode(Uint8Array.from(bytes))];
  } catch {
    return bytes.map(() => '\ufffd');
  }
}

/**
 * Without up to `start` signs at the beginning and `stop` at the end.
 * @param {string} token @param {string} sign @param {number} start @param {number} stop
 */
function stripped(token, sign, start, stop) {
  const letters = [...token];
  let from = 0;
  while (from < Math.min(start, letters.length) && letters[from] === sign) from++;
  let to = letters.length;
  while (letters.length - to < stop && to > from && letters[to - 1] === sign) to--;
  return letters.slice(from, to).join('');
}
