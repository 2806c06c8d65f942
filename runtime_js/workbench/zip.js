// A zip archive of files, stored without compression: bundles are small.

import { crc32 } from '../files/crc32.js';

/** @param {Record<string, Uint8Array>} files @returns {Blob} */
export function zip(files) {
  const parts = [];
  const directory = [];
  let at = 0;
  for (const [name, bytes] of Object.entries(files)) {
    const title = new TextEncoder().encode(name);
    const facts = factsOf(bytes, title.length);
    const local = record(0x04034b50, [[2, 20], ...facts, [2, 0]]);
    directory.push(
      record(0x02014b50, [
        [2, 20],
        [2, 20],
        ...facts,
        [2, 0],
        [2, 0],
        [2, 0],
        [2, 0],
        [4, 0],
        [4, at],
      ]),
      title,
    );
    parts.push(local, title, bytes);
    at += local.length + title.length + bytes.length;
  }
  const count = Object.keys(files).length;
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = record(0x06054b50, [
    [2, 0],
    [2, 0],
    [2, count],
    [2, count],
    [4, size],
    [4, at],
    [2, 0],
  ]);
  return new Blob(/** @type {any} */ ([...parts, ...directory, end]));
}

/** Flags (UTF-8), method, time, date, checksum, both sizes, length of the name. @param {Uint8Array} bytes @param {number} title @returns {[number, number][]} */
const factsOf = (bytes, title) => [
  [2, 0x800],
  [2, 0],
  [2, 0],
  [2, 0x21],
  [4, crc32(bytes)],
  [4, bytes.length],
  [4, bytes.length],
  [2, title],
];

/** @param {number} signature @param {number[][]} fields bytes and number of each */
function record(signature, fields) {
  const all = [[4, signature], ...fields];
  const data = new DataView(new ArrayBuffer(all.reduce((sum, [width]) => sum + width, 0)));
  let at = 0;
  for (const [width, value] of all) {
    if (width === 2) data.setUint16(at, value, true);
    else data.setUint32(at, value, true);
    at += width;
  }
  return new Uint8Array(data.buffer);
}
