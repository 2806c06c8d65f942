// The digest by which a plan is known to be what the compiler wrote. Mirrors strict_json.py.

import { fail } from '../core/errors.js';
import { sha256 } from './sha256.js';

/** The digest of JSON values, whatever the order of their keys. @param {any} content */
export const contentDigest = content => sha256(contentBytes(content));

/** Refuses a plan that was changed; one without a digest was written by an older wgcc. @param {any} plan */
export function checkPlanDigest({ sha256: digest, ...content }) {
  if (digest === undefined || digest === contentDigest(content)) return;
  const remedy = 'build the model again, or run `wgcc accept` on the bundle if it was on purpose';
  fail('plan', 'sha256', `differs: the plan was changed after the bundle was built; ${remedy}`);
}

/** @param {any} content */
function contentBytes(content) {
  /** @type {Uint8Array[]} */
  const pieces = [];
  appendContent(pieces, content);
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

const contentEncoder = new TextEncoder();
const CONTENT_WORDS = new Map([
  [null, 'n'],
  [true, 't'],
  [false, 'f'],
]);

/** Numbers as doubles, so that 1 and 1.0 are equal in all languages. @param {Uint8Array[]} pieces @param {any} value */
function appendContent(pieces, value) {
  if (Array.isArray(value)) {
    pieces.push(contentEncoder.encode('['));
    for (const item of value) appendContent(pieces, item);
    pieces.push(contentEncoder.encode(']'));
  } else if (typeof value === 'string') {
    const text = contentEncoder.encode(value);
    const size = new DataView(new ArrayBuffer(5));
    size.setUint8(0, 's'.charCodeAt(0));
    size.setUint32(1, text.length);
    pieces.push(new Uint8Array(size.buffer), text);
  } else if (typeof value === 'number') {
    const number = new DataView(new ArrayBuffer(9));
    number.setUint8(0, 'd'.charCodeAt(0));
    number.setFloat64(1, value);
    pieces.push(new Uint8Array(number.buffer));
  } else if (CONTENT_WORDS.has(value)) {
    pieces.push(contentEncoder.encode(CONTENT_WORDS.get(value)));
  } else {
    pieces.push(contentEncoder.encode('{'));
    for (const key of Object.keys(value).sort()) {
      appendContent(pieces, key);
      appendContent(pieces, value[key]);
    }
    pieces.push(contentEncoder.encode('}'));
  }
}
