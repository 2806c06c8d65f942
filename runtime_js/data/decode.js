// Bytes of a file as text, in chunks: byte order marks, UTF-8, else Windows-1252. Mirrors encoding.py.

import { pause } from './pause.js';

/** @import { Source } from './source.js' */
/** @import { Chunks } from './text_lines.js' */

/** Few enough to be decoded and split in a few milliseconds. */
const CHUNK_BYTES = 2 ** 17;
/** @type {[string, number[]][]} */
const MARKS = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];
const ZIP = [0x50, 0x4b, 3, 4];
const PDF = [0x25, 0x50, 0x44, 0x46];

/**
 * The text of a file, without its byte order mark.
 * @param {Uint8Array} bytes @param {Source} source @returns {Promise<Chunks>}
 */
export async function decode(bytes, source) {
  const starts = (/** @type {number[]} */ mark) => mark.every((byte, i) => bytes[i] === byte);
  if (starts(ZIP)) source.refuse('workbook');
  if (starts(PDF)) source.refuse('pdf');
  const marked = MARKS.find(([, mark]) => starts(mark));
  if (marked) return () => chunksOf(bytes.subarray(marked[1].length), marked[0]);
  if (bytes.includes(0)) source.refuse('binary');
  if (await isUtf8(bytes)) return () => chunksOf(bytes, 'utf-8');
  source.note('windows-1252');
  return () => chunksOf(bytes, 'windows-1252');
}

/** @param {Uint8Array} bytes */
async function isUtf8(bytes) {
  try {
    for (const _ of chunksOf(bytes, 'utf-8', true)) await pause();
    return true;
  } catch {
    return false;
  }
}

/** @param {Uint8Array} bytes @param {string} encoding @param {boolean} [fatal] */
function* chunksOf(bytes, encoding, fatal = false) {
  const decoder = new TextDecoder(encoding, { fatal, ignoreBOM: true });
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES)
    yield decoder.decode(bytes.subarray(start, start + CHUNK_BYTES), { stream: true });
  yield decoder.decode();
}
