// Reads a safetensors file as it comes: the header, then one tensor after the other, each in memory of
// its own, so that the file as a whole is never in memory.

import { inSlices, isPauseDue, nextTask } from '../core/pause.js';
import { WORD_BYTES } from '../core/plan.js';
import { crc32 } from './crc32.js';
import { fromHalves, isHalf } from './half.js';
import { checkedFile, crcOfFile, headerEnd, noFile, parseHeader, toArray } from './safetensors.js';

/** @import { Arrays, Checksum, Header, Spec, TensorFile } from './safetensors.js' */
/** @typedef {AsyncGenerator<Uint8Array, void, void>} Pieces of a file, in order */

/** Longer parts of a piece would block a page. */
const PART_BYTES = 2 ** 20;
/** The format allows no longer header. */
const MOST_HEADER = 100_000_000;

/**
 * The tensors of a file, as `readTensors` returns them; those that are not wanted are only checked.
 * @param {Pieces} pieces @param {string} field its name in errors
 * @param {number} [limit] of its bytes @param {(name: string) => boolean} [isWanted]
 * @returns {Promise<TensorFile>}
 */
export async function streamTensors(pieces, field, limit = Infinity, isWanted = () => true) {
  const reader = new PieceReader(pieces);
  let file;
  try {
    file = await readWhole(reader, limit, isWanted);
  } catch (error) {
    throw reader.failure ?? noFile(field, error);
  } finally {
    await pieces.return();
  }
  return checkedFile(file.header, file.tensors, file.crc, field);
}

/**
 * Throws any error if the file is malformed.
 * @param {PieceReader} reader @param {number} limit @param {(name: string) => boolean} isWanted
 */
async function readWhole(reader, limit, isWanted) {
  const header = await readHeader(reader, limit);
  const { tensors, crc } = await readBody(reader, header, isWanted);
  if (!(await reader.isAtEnd())) throw new Error('its length is wrong');
  return { header, tensors, crc };
}

/** @param {PieceReader} reader @param {number} limit @returns {Promise<Header>} */
async function readHeader(reader, limit) {
  const start = new Uint8Array(8);
  await reader.fill(start);
  const length = headerEnd(start) - start.length;
  if (length > Math.min(MOST_HEADER, limit)) throw new Error(`its header has ${length} bytes`);
  const text = new Uint8Array(length);
  await reader.fill(text);
  const header = parseHeader(text);
  if (header.length > limit) throw new Error('it is too large');
  return header;
}

/** @param {PieceReader} reader @param {Header} header @param {(name: string) => boolean} isWanted */
async function readBody(reader, { specs, facts }, isWanted) {
  // No prototype, because names of the file could be those of inherited members.
  const tensors = /** @type {Arrays} */ (Object.create(null));
  const checksums = /** @type {Record<string, Checksum>} */ (Object.create(null));
  for (const [name, spec] of specs) {
    const length = spec.data_offsets[1] - spec.data_offsets[0];
    let crc = 0;
    const check = (/** @type {Uint8Array} */ part) => {
      if (facts.crc32 !== undefined) crc = crc32(part, crc);
    };
    if (isWanted(name)) {
      const bytes = new Uint8Array(new ArrayBuffer(roundedUp(length)), 0, length);
      await reader.fill(bytes, check);
      tensors[name] = await widened(toArray(name, spec, bytes), spec);
    } else await reader.skip(length, check);
    checksums[name] = { crc, length };
  }
  return { tensors, crc: facts.crc32 === undefined ? undefined : crcOfFile(checksums) };
}

/** Numbers, where JavaScript has no array of the type. @param {any} array @param {Spec} spec */
async function widened(array, { dtype, shape }) {
  if (!isHalf(dtype)) return array;
  const wide = new Float32Array(array.length);
  await inSlices(array.length, (from, to) =>
    wide.set(fromHalves(array.subarray(from, to), dtype), from),
  );
  return Object.assign(wide, { shape });
}

/** To whole words, which a tensor has on the GPU. @param {number} bytes */
function roundedUp(bytes) {
  return WORD_BYTES * Math.ceil(bytes / WORD_BYTES);
}

/** Bytes in order, wherever pieces end. */
class PieceReader {
  /** Why no more pieces came. @type {unknown} */
  failure;
  /** What was not read of the last piece. @type {Uint8Array} */
  #left = new Uint8Array();

  /** @param {Pieces} pieces */
  constructor(pieces) {
    this.pieces = pieces;
  }

  /** @param {Uint8Array} target @param {(part: Uint8Array) => void} [look] at each part of it */
  async fill(target, look) {
    let at = 0;
    await this.skip(target.length, part => {
      target.set(part, at);
      at += part.length;
      look?.(part);
    });
  }

  /** @param {number} length @param {(part: Uint8Array) => void} look at each part of it */
  async skip(length, look) {
    for (let left = length; left > 0; ) {
      if (await this.isAtEnd()) throw new Error('it ends too early');
      const part = this.#left.subarray(0, Math.min(left, PART_BYTES));
      look(part);
      left -= part.length;
      this.#left = this.#left.subarray(part.length);
      if (isPauseDue()) await nextTask();
    }
  }

  async isAtEnd() {
    while (!this.#left.length) {
      const { value, done } = await this.#next();
      if (done) return true;
      this.#left = value;
    }
    return false;
  }

  async #next() {
    try {
      return await this.pieces.next();
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }
}
