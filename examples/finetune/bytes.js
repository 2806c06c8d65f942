// A file as magika reads it: the first and the last 1,024 bytes without blanks around them. The same
// as `features` of samples.py.

const PIECE = 1024;
const BLOCK = 4096;
/** Stands for "no byte". */
export const PADDING = 256;
export const LENGTH = 2 * PIECE;
/** Files with fewer bytes say too little. */
export const LEAST_BYTES = 8;

/** Space, and tab to carriage return: what Python's `bytes.strip` removes. */
const isBlank = byte => byte === 32 || (byte >= 9 && byte <= 13);

/** @param {Uint8Array} data a whole file @returns {Int32Array} */
export function featuresOf(data) {
  const begin = data.subarray(0, BLOCK);
  const end = data.subarray(Math.max(0, data.length - BLOCK));
  let first = 0;
  while (first < begin.length && isBlank(begin[first])) first++;
  let last = end.length;
  while (last > 0 && isBlank(end[last - 1])) last--;
  const features = new Int32Array(LENGTH).fill(PADDING);
  features.set(begin.subarray(first, first + PIECE));
  const tail = end.subarray(Math.max(0, last - PIECE), last);
  features.set(tail, LENGTH - tail.length);
  return features;
}

/** What was read of a file, or undefined if that is too little. */
export const isEnough = features => features[LEAST_BYTES - 1] !== PADDING;

/** The text of a sample, for people; other files than texts have none. */
export function textOf(features) {
  const begin = Uint8Array.from(features.subarray(0, PIECE).filter(byte => byte !== PADDING));
  try {
    // The last character may be cut.
    return new TextDecoder('utf-8', { fatal: true }).decode(begin, { stream: true });
  } catch {
    return '';
  }
}

/** One array of the rows of several samples. */
export function joined(rows) {
  const all = new Int32Array(rows.length * LENGTH);
  rows.forEach((row, i) => {
    all.set(row, i * LENGTH);
  });
  return all;
}
