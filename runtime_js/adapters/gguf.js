// Reads GGUF files: metadata, the table of tensors, and any part of a tensor, so that the file as a
// whole is never in memory. Mirrors wgcc/from_gguf/read.py, which has the layout. Every count is
// compared with the bytes that are left before anything is made of it.

import { fail } from '../core/errors.js';
import { fromHalves, isHalf } from '../files/half.js';

/**
 * @typedef {{name: string, elements: number, bytes: number}} BlockType `bytes` hold `elements` weights
 * @typedef {object} GgufTensor
 * @property {string} name
 * @property {number[]} shape the slowest axis first
 * @property {BlockType} type @property {number} start @property {number} bytes
 */

const MAGIC = 0x46554747;
/** What is read of a file at first; a vocabulary needs more. */
const FIRST_BYTES = 2 ** 20;
const MOST_HEADER_BYTES = 2 ** 28;
const MOST_TENSORS = 100_000;
const MOST_RANK = 4;
const STRING = 8;
const ARRAY = 9;
/** By the number that a file has for it: name, weights and bytes of a block. */
const BLOCK_TYPES = new Map(
  /** @type {[number, string, number, number][]} */ ([
    [0, 'F32', 1, 4],
    [1, 'F16', 1, 2],
    [2, 'Q4_0', 32, 18],
    [3, 'Q4_1', 32, 20],
    [6, 'Q5_0', 32, 22],
    [7, 'Q5_1', 32, 24],
    [8, 'Q8_0', 32, 34],
    [10, 'Q2_K', 256, 84],
    [11, 'Q3_K', 256, 110],
    [12, 'Q4_K', 256, 144],
    [13, 'Q5_K', 256, 176],
    [14, 'Q6_K', 256, 210],
    [30, 'BF16', 1, 2],
  ]).map(([number, name, elements, bytes]) => [number, { name, elements, bytes }]),
);
/** Readers of a DataView by a type's number in metadata, and their bytes. @type {Record<number, [string, number]>} */
const SCALARS = {
  0: ['getUint8', 1],
  1: ['getInt8', 1],
  2: ['getUint16', 2],
  3: ['getInt16', 2],
  4: ['getUint32', 4],
  5: ['getInt32', 4],
  6: ['getFloat32', 4],
  7: ['getUint8', 1],
  10: ['getBigUint64', 8],
  11: ['getBigInt64', 8],
  12: ['getFloat64', 8],
};

/** More of the file is needed. */
class TooShort extends Error {}

/** An open file. */
export class GgufFile {
  /** @type {Map<string, any>} numbers, texts, and lists of them */
  metadata = new Map();
  /** @type {Map<string, GgufTensor>} */
  tensors = new Map();

  /** @param {Blob} blob @param {string} name in errors */
  constructor(blob, name) {
    this.blob = blob;
    this.name = name;
  }

  /** @param {Blob} blob @param {string} [name] */
  static async open(blob, name = /** @type {any} */ (blob).name ?? 'the file') {
    const file = new GgufFile(blob, name);
    for (let length = FIRST_BYTES; ; length *= 4) {
      const bytes = await blob.slice(0, Math.min(length, MOST_HEADER_BYTES)).arrayBuffer();
      try {
        new Header(file, new DataView(bytes)).read();
        return file;
      } catch (error) {
        if (!(error instanceof TooShort)) throw error;
        if (bytes.byteLength >= Math.min(blob.size, MOST_HEADER_BYTES)) file.refuse(error.message);
      }
    }
  }

  /**
   * The bytes of a tensor, or of a part of it.
   * @param {GgufTensor} tensor @param {number} [from] @param {number} [to]
   */
  async read({ start, bytes }, from = 0, to = bytes) {
    return new Uint8Array(await this.blob.slice(start + from, start + to).arrayBuffer());
  }

  /** @param {string} text @returns {never} */
  refuse(text) {
    return fail('weights', this.name, text);
  }
}

/** @param {Blob} blob */
export async function isGguf(blob) {
  const start = await blob.slice(0, 4).arrayBuffer();
  return start.byteLength === 4 && new DataView(start).getUint32(0, true) === MAGIC;
}

/**
 * Numbers that are stored as floats; undefined for other types.
 * @param {string} type @param {Uint8Array<ArrayBuffer>} bytes
 */
export function floatsOf(type, bytes) {
  const { buffer } = bytes.slice();
  if (type === 'F32') return new Float32Array(buffer);
  return isHalf(type) ? fromHalves(new Uint16Array(buffer), type) : undefined;
}

/** Everything before the data. */
class Header {
  #at = 0;

  /** @param {GgufFile} file @param {DataView} view of its beginning */
  constructor(file, view) {
    this.file = file;
    this.view = view;
  }

  read() {
    const { file } = this;
    if (this.view.byteLength < 4 || this.#number(4) !== MAGIC)
      file.refuse('is no GGUF file: it does not begin with GGUF');
    const version = this.#number(4);
    if (version !== 2 && version !== 3)
      file.refuse(`has version ${version}; versions 2 and 3 are known`);
    const count = this.#count(24, 'tensors');
    const pairs = this.#count(12, 'pairs of metadata');
    if (count > MOST_TENSORS) file.refuse(`has ${count} tensors; at most ${MOST_TENSORS} are read`);
    file.metadata = new Map();
    for (let i = 0; i < pairs; i++) {
      const key = this.#string();
      file.metadata.set(key, this.#value(key));
    }
    this.#table(count);
  }

  /** @param {number} count */
  #table(count) {
    const { file } = this;
    const entries = Array.from({ length: count }, () => this.#tensor());
    const alignment = file.metadata.get('general.alignment') ?? 32;
    if (!(alignment >= 1 && alignment <= 2 ** 20)) file.refuse(`has an alignment of ${alignment}`);
    const begin = alignment * Math.ceil(this.#at / alignment);
    file.tensors = new Map();
    for (const entry of entries) {
      const tensor = { ...entry, start: begin + entry.start };
      if (file.tensors.has(tensor.name)) file.refuse(`has two tensors called ${tensor.name}`);
      if (!(tensor.start + tensor.bytes <= file.blob.size))
        file.refuse(`is cut off: ${tensor.name} ends behind it`);
      file.tensors.set(tensor.name, tensor);
    }
  }

  /** @returns {GgufTensor} */
  #tensor() {
    const { file } = this;
    const name = this.#string();
    const rank = this.#number(4);
    if (!(rank > 0 && rank <= MOST_RANK)) file.refuse(`has ${name} with ${rank} axes`);
    const shape = Array.from({ length: rank }, () => this.#number(8)).reverse();
    const number = this.#number(4);
    const type =
      BLOCK_TYPES.get(number) ?? file.refuse(`has ${name} of the unknown type ${number}`);
    const size = shape.reduce((a, b) => a * b, 1);
    if (!(size > 0) || size > 2 ** 40 || (shape.at(-1) ?? 0) % type.elements)
      file.refuse(`has ${name} of shape [${shape.join(', ')}], which ${type.name} cannot have`);
    const bytes = (size / type.elements) * type.bytes;
    return { name, shape, type, start: this.#number(8), bytes };
  }

  /** @param {string} key @returns {any} */
  #value(key) {
    const kind = this.#number(4);
    if (kind !== ARRAY) return this.#item(kind, key);
    const inner = this.#number(4);
    const width = SCALARS[inner]?.[1] ?? 8;
    const count = this.#count(width, `values of ${key}`);
    return Array.from({ length: count }, () => this.#item(inner, key));
  }

  /** @param {number} kind @param {string} key @returns {any} */
  #item(kind, key) {
    if (kind === STRING) return this.#string();
    const [method, width] = SCALARS[kind] ?? this.file.refuse(`has ${key} of an unknown type`);
    const value = /** @type {any} */ (this.view)[method](this.#take(width), true);
    return typeof value === 'bigint' ? Number(value) : value;
  }

  #string() {
    const length = this.#count(1, 'bytes of a text');
    const at = this.view.byteOffset + this.#take(length);
    return new TextDecoder().decode(new Uint8Array(this.view.buffer, at, length));
  }

  /** A number that says how many follow. @param {number} least bytes of each @param {string} what */
  #count(least, what) {
    const count = this.#number(8);
    if (count * least > this.file.blob.size - this.#at)
      this.file.refuse(`is cut off or damaged: it says that ${count} ${what} follow`);
    return count;
  }

  /** @param {4 | 8} width */
  #number(width) {
    const at = this.#take(width);
    return width === 4 ? this.view.getUint32(at, true) : Number(this.view.getBigUint64(at, true));
  }

  /** The place of the next `length` bytes. @param {number} length */
  #take(length) {
    const at = this.#at;
    if (at + length > this.view.byteLength) throw new TooShort('is cut off, in its header');
    this.#at += length;
    return at;
  }
}
