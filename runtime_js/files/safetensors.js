// Safetensors files: what their headers and bytes mean, with checks. A checkpoint is an ordinary safetensors file:
// one tensor per parameter and state, and in the metadata the keys `wgcc` and, if the model has a
// preparation, `preparation`, with JSON each.

import { fail } from '../core/errors.js';
import { elementCount } from '../core/plan.js';
import { mapRecord } from '../core/records.js';
import { crc32, joinedCrc } from './crc32.js';
import { fromHalves, isHalf } from './half.js';
import { preparationOf } from './preparation.js';

/** @import { Progress } from '../core/session.js' */
/**
 * @typedef {Record<string, any>} Arrays typed arrays with their shapes, by name
 * @typedef {Record<string, Uint8Array>} Stored the bytes of each tensor
 * @typedef {Record<string, any>} Facts of a checkpoint
 * @typedef {{dtype: string, shape: number[], data_offsets: [number, number]}} Spec
 * @typedef {object} Header
 * @property {[string, Spec][]} specs in the order of the file
 * @property {number} length of all that comes behind the header
 * @property {Facts} facts
 * @property {string} [preparation]
 * @typedef {{crc: number, length: number}} Checksum of some bytes
 * @typedef {{tensors: Arrays, facts: Facts, progress: Progress, preparation: any}} TensorFile
 */

export const FORMAT = 'wgcc-checkpoint';
export const VERSION = 1;
/** The momentum of workers that exchange rarely (Python's distributed training): no tensor of a model. */
const OUTER = 'outer/velocity';
/**
 * The array for each element type; those that are written come first, in the order in which the
 * format's own writer sorts them.
 * @type {Record<string, any>}
 */
export const STORED_TYPES = {
  F32: Float32Array,
  U32: Uint32Array,
  I32: Int32Array,
  F16: Uint16Array,
  I8: Int8Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
  BF16: Uint16Array,
  F64: Float64Array,
  I64: BigInt64Array,
  I16: Int16Array,
  U16: Uint16Array,
  U64: BigUint64Array,
};

/**
 * The tensors of a file, which share its bytes, and the progress of training if it is a checkpoint.
 * @param {any} source its bytes @param {string} field its name in errors
 * @returns {TensorFile}
 */
export function readTensors(source, field) {
  const bytes = bytesOf(source);
  let file;
  try {
    file = parse(bytes);
  } catch (error) {
    return noFile(field, error);
  }
  const { header, tensors, stored } = file;
  return checkedFile(header, tensors, crcOfFile(mapRecord(stored, crcOf)), field);
}

/** @param {any} source */
export function bytesOf(source) {
  return new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength);
}

/** @param {string} field @param {unknown} error @returns {never} */
export function noFile(field, error) {
  return fail('weights', field, `is not a safetensors file: ${error}`);
}

/**
 * A file whose tensors were read, if header and checksum are right.
 * @param {Header} header @param {Arrays} tensors @param {number | undefined} crc
 * @param {string} field @returns {TensorFile}
 */
export function checkedFile({ facts, preparation }, tensors, crc, field) {
  const { format, version, steps = {}, data, optimizer = {}, crc32: expected = crc } = facts;
  const { position = 0, seed = 0 } = data ?? {};
  const areTables = [steps, optimizer].every(table => table?.constructor === Object);
  const areCounts = areTables && [...Object.values(steps), position].every(isCount);
  const isSound = areCounts && seed >>> 0 === seed;
  if (format !== FORMAT || crc !== expected || !isSound) fail('weights', field, 'is damaged');
  if (version !== VERSION) fail('version', field, `has version ${version}, not ${VERSION}`);
  delete tensors[OUTER];
  return {
    tensors,
    facts,
    progress: { steps, position, seed },
    preparation: preparationOf(preparation, field),
  };
}

/**
 * Throws any error if the file is malformed.
 * @param {Uint8Array} bytes
 */
function parse(bytes) {
  const start = headerEnd(bytes);
  const header = parseHeader(bytes.subarray(8, start));
  if (start + header.length !== bytes.length) throw new Error('its length is wrong');
  // No prototype, because names of the file could be those of inherited members.
  const tensors = /** @type {Arrays} */ (Object.create(null));
  const stored = /** @type {Stored} */ (Object.create(null));
  for (const [name, spec] of header.specs) {
    const [from, to] = spec.data_offsets;
    stored[name] = bytes.subarray(start + from, start + to);
    const array = toArray(name, spec, stored[name]);
    tensors[name] = isHalf(spec.dtype)
      ? Object.assign(fromHalves(array, spec.dtype), { shape: spec.shape })
      : array;
  }
  return { header, tensors, stored };
}

/** Where the header ends, as the first 8 bytes of a file say. @param {Uint8Array} bytes */
export function headerEnd({ buffer, byteOffset }) {
  return 8 + Number(new DataView(buffer, byteOffset).getBigUint64(0, true));
}

/**
 * Throws any error if it is malformed.
 * @param {Uint8Array} bytes @returns {Header}
 */
export function parseHeader(bytes) {
  const { __metadata__: metadata, ...specs } = JSON.parse(new TextDecoder().decode(bytes));
  const facts =
    metadata?.wgcc === undefined ? { format: FORMAT, version: VERSION } : JSON.parse(metadata.wgcc);
  const inOrder = sortedByOffset(specs);
  let length = 0;
  for (const [name, { data_offsets: offsets }] of inOrder) {
    if (offsets[0] !== length) throw new Error(`${name} starts at the wrong place`);
    length = offsets[1];
  }
  return { specs: inOrder, length, facts: facts ?? {}, preparation: metadata?.preparation };
}

/** @param {Record<string, Spec>} specs */
function sortedByOffset(specs) {
  return Object.entries(specs).sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
}

/**
 * An array on the bytes themselves, which may be many, unless they are where no array of the type may
 * begin; halves as their bits.
 * @param {string} name @param {Spec} spec @param {Uint8Array} data
 */
export function toArray(name, { dtype, shape }, data) {
  const Type = STORED_TYPES[dtype];
  const width = Type.BYTES_PER_ELEMENT;
  if (!shape.every(Number.isInteger) || data.length !== width * elementCount(shape))
    throw new Error(`${name} has the wrong size`);
  const { buffer, byteOffset, length } = data.byteOffset % width ? data.slice() : data;
  const array = new Type(buffer, byteOffset, length / width);
  return Object.assign(array, { shape });
}

/** @param {any} count */
function isCount(count) {
  return Number.isSafeInteger(count) && count >= 0;
}

/** @param {Uint8Array} bytes @returns {Checksum} */
function crcOf(bytes) {
  return { crc: crc32(bytes), length: bytes.length };
}

/**
 * Of names and bytes of all tensors, sorted by name: in a file they are in another order.
 * @param {Record<string, Checksum>} checksums
 */
export function crcOfFile(checksums) {
  let total = 0;
  for (const name of Object.keys(checksums).sort()) {
    const { crc, length } = checksums[name];
    total = joinedCrc(crc32(new TextEncoder().encode(name), total), crc, length);
  }
  return total;
}
