// Writes a safetensors file, the same bytes as Python for the same values, from pieces of its tensors.

import { CALLER_TYPES } from '../core/arrays.js';
import { isPauseDue, nextTask } from '../core/pause.js';
import { elementBytes, elementCount } from '../core/plan.js';
import { mapRecord } from '../core/records.js';
import { crc32 } from './crc32.js';
import { toHalfBits } from './half.js';
import { crcOfFile, FORMAT, STORED_TYPES, VERSION } from './safetensors.js';

/** @import { Words } from '../core/arrays.js' */
/** @import { Tensor, Tensors } from '../core/plan.js' */
/** @import { Checksum, Facts } from './safetensors.js' */
/** @typedef {Uint8Array<ArrayBuffer> | Blob} Part of a file */

/** A checksum of more bytes at once would block a page. */
const LOOK_BYTES = 2 ** 20;

/** One file, while its tensors are read. */
export class TensorWriter {
  /** @type {Record<string, Part[]>} */
  #parts;
  /** @type {Record<string, Checksum>} */
  #checksums;

  /**
   * @param {Tensors} tensors
   * @param {(bytes: Uint8Array<ArrayBuffer>) => Part} [kept] a copy of bytes that are used again
   */
  constructor(tensors, kept = bytes => bytes.slice()) {
    this.tensors = tensors;
    this.kept = kept;
    this.#parts = mapRecord(tensors, () => []);
    this.#checksums = mapRecord(tensors, () => ({ crc: 0, length: 0 }));
  }

  /** The next piece of a tensor. @param {string} name @param {Words} words */
  async add(name, words) {
    const checksum = this.#checksums[name];
    const bytes = storedBytes(words, this.tensors[name], checksum.length);
    this.#parts[name].push(this.kept(bytes));
    checksum.length += bytes.length;
    for (let at = 0; at < bytes.length; at += LOOK_BYTES) {
      if (isPauseDue()) await nextTask();
      checksum.crc = crc32(bytes.subarray(at, at + LOOK_BYTES), checksum.crc);
    }
  }

  /** The parts of the file, in order. @param {Facts} facts @param {any} [preparation] */
  end(facts, preparation) {
    const { tensors } = this;
    const typeOf = (/** @type {string} */ name) => tensors[name].dtype.toUpperCase();
    const rank = (/** @type {string} */ name) => Object.keys(STORED_TYPES).indexOf(typeOf(name));
    const order = Object.keys(tensors)
      .sort()
      .sort((a, b) => rank(a) - rank(b));
    const crc = crcOfFile(this.#checksums);
    const wgcc = pythonJson({ ...facts, crc32: crc, format: FORMAT, version: VERSION });
    /** @type {Record<string, any>} */
    const header = {
      __metadata__: preparation
        ? { preparation: JSON.stringify(withSortedKeys(preparation)), wgcc }
        : { wgcc },
    };
    let end = 0;
    for (const name of order) {
      const start = end;
      end += this.#checksums[name].length;
      const { shape } = tensors[name];
      header[name] = { dtype: typeOf(name), shape, data_offsets: [start, end] };
    }
    const parts = [headerBytes(header), ...order.flatMap(name => this.#parts[name])];
    this.#parts = {};
    return parts;
  }
}

/**
 * A piece of a tensor as a file has it: without what fills the last word, halves in two bytes.
 * @param {Words} words @param {Tensor} tensor @param {number} done bytes of pieces before
 */
function storedBytes({ buffer, byteOffset, byteLength }, { dtype, shape }, done) {
  if (dtype === 'f16') {
    const halves = Uint16Array.from(
      new CALLER_TYPES.f16(buffer, byteOffset, byteLength / 4),
      toHalfBits,
    );
    return new Uint8Array(halves.buffer);
  }
  const left = elementBytes(dtype) * elementCount(shape) - done;
  return new Uint8Array(buffer, byteOffset, Math.min(byteLength, left));
}

/**
 * As Python's json.dumps writes it: keys sorted, a space after commas and colons.
 * @param {object} value
 */
function pythonJson(value) {
  return JSON.stringify(withSortedKeys(value), null, 1)
    .replace(/,\n */g, ', ')
    .replace(/\n */g, '');
}

/** @param {any} value @returns {any} */
function withSortedKeys(value) {
  if (value?.constructor !== Object) return value;
  const names = Object.keys(value).sort();
  return Object.fromEntries(names.map(name => [name, withSortedKeys(value[name])]));
}

/** With its length in front, and blanks up to a whole word of 8 bytes. @param {object} header */
function headerBytes(header) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = 8 * Math.ceil(text.length / 8);
  const bytes = new Uint8Array(8 + length).fill(' '.charCodeAt(0));
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, 8);
  return bytes;
}

/** @param {Uint8Array[]} parts are taken out of the list, so that each is freed when it is copied */
export async function joined(parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  while (parts.length) {
    if (isPauseDue()) await nextTask();
    const part = /** @type {Uint8Array} */ (parts.shift());
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
