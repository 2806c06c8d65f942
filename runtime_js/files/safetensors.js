// Reads and writes safetensors files, with checks. A checkpoint is an ordinary safetensors file:
// one tensor per parameter and state, and in the metadata the keys `wgcc` and, if the model has a
// preparation, `preparation`, with JSON each.

import { fail } from '../core/errors.js';
import { elementCount } from '../core/plan.js';
import { crc32 } from './crc32.js';
import { fromHalfBits, toHalfBits } from './half.js';
import { preparationOf } from './preparation.js';

/** @import { Values } from '../core/arrays.js' */
/** @import { Tensors } from '../core/plan.js' */
/** @import { Progress } from '../core/session.js' */
/**
 * @typedef {Record<string, any>} Arrays typed arrays with their shapes, by name
 * @typedef {Record<string, Uint8Array>} Stored the bytes of each tensor
 * @typedef {Record<string, any>} Facts of a checkpoint
 * @typedef {{dtype: string, shape: number[], data_offsets: [number, number]}} Spec
 */

const FORMAT = 'wgcc-checkpoint';
const VERSION = 1;
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
 * @returns {{tensors: Arrays, facts: Facts, progress: Progress, preparation: any}}
 */
export function readTensors(source, field) {
  const bytes = new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength);
  let file;
  try {
    file = parse(bytes);
  } catch (error) {
    return fail('weights', field, `is not a safetensors file: ${error}`);
  }
  const crc = crcOf(file.stored);
  const { format, version, steps = {}, data, optimizer = {}, crc32: expected = crc } = file.facts;
  const { position = 0, seed = 0 } = data ?? {};
  const areTables = [steps, optimizer].every(table => table?.constructor === Object);
  const areCounts = areTables && [...Object.values(steps), position].every(isCount);
  const isSound = areCounts && seed >>> 0 === seed;
  if (format !== FORMAT || crc !== expected || !isSound) fail('weights', field, 'is damaged');
  if (version !== VERSION) fail('version', field, `has version ${version}, not ${VERSION}`);
  delete file.tensors[OUTER];
  return {
    tensors: file.tensors,
    facts: file.facts,
    progress: { steps, position, seed },
    preparation: preparationOf(file.preparation, field),
  };
}

/**
 * Throws any error if the file is malformed.
 * @param {Uint8Array} bytes
 */
function parse(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const start = 8 + Number(view.getBigUint64(0, true));
  const text = new TextDecoder().decode(bytes.subarray(8, start));
  const { __metadata__: metadata, ...specs } = JSON.parse(text);
  const facts =
    metadata?.wgcc === undefined ? { format: FORMAT, version: VERSION } : JSON.parse(metadata.wgcc);
  // No prototype, because names of the file could be those of inherited members.
  const tensors = /** @type {Arrays} */ (Object.create(null));
  const stored = /** @type {Stored} */ (Object.create(null));
  let end = start;
  for (const [name, spec] of sortedByOffset(specs)) {
    const [from, to] = spec.data_offsets;
    if (start + from !== end) throw new Error(`${name} starts at the wrong place`);
    end = start + to;
    stored[name] = bytes.subarray(start + from, end);
    tensors[name] = toArray(name, spec, stored[name]);
  }
  if (end !== bytes.length) throw new Error('its length is wrong');
  return { tensors, stored, facts: facts ?? {}, preparation: metadata?.preparation };
}

/** @param {Record<string, Spec>} specs */
function sortedByOffset(specs) {
  return Object.entries(specs).sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
}

/**
 * An array on the bytes of the file itself, which may be large, unless they are where no array of the
 * type may begin.
 * @param {string} name @param {Spec} spec @param {Uint8Array} data
 */
function toArray(name, { dtype, shape }, data) {
  const Type = STORED_TYPES[dtype];
  const width = Type.BYTES_PER_ELEMENT;
  if (!shape.every(Number.isInteger) || data.length !== width * elementCount(shape))
    throw new Error(`${name} has the wrong size`);
  const { buffer, byteOffset, length } = data.byteOffset % width ? data.slice() : data;
  const array = new Type(buffer, byteOffset, length / width);
  return Object.assign(widened(array, dtype), { shape });
}

/** Numbers, where JavaScript has no array of the type. @param {any} array @param {string} dtype */
function widened(array, dtype) {
  if (dtype === 'F16') return Float32Array.from(array, fromHalfBits);
  if (dtype === 'BF16') return new Float32Array(Uint32Array.from(array, bits => bits << 16).buffer);
  return array;
}

/** @param {any} count */
function isCount(count) {
  return Number.isSafeInteger(count) && count >= 0;
}

/** @param {Stored} stored */
function crcOf(stored) {
  let crc = 0;
  for (const name of Object.keys(stored).sort()) {
    crc = crc32(new TextEncoder().encode(name), crc);
    crc = crc32(stored[name], crc);
  }
  return crc;
}

/**
 * The same bytes that Python writes for these values.
 * @param {Record<string, Values>} values @param {Tensors} tensors
 * @param {Facts} facts @param {any} [preparation]
 */
export function writeTensors(values, tensors, facts, preparation) {
  const typeOf = (/** @type {string} */ name) => tensors[name].dtype.toUpperCase();
  const rank = (/** @type {string} */ name) => Object.keys(STORED_TYPES).indexOf(typeOf(name));
  const order = Object.keys(values)
    .sort()
    .sort((a, b) => rank(a) - rank(b));
  const stored = Object.fromEntries(order.map(name => [name, toBytes(values[name], typeOf(name))]));
  const wgcc = pythonJson({ ...facts, crc32: crcOf(stored), format: FORMAT, version: VERSION });
  /** @type {Record<string, any>} */
  const header = {
    __metadata__: preparation
      ? { preparation: JSON.stringify(withSortedKeys(preparation)), wgcc }
      : { wgcc },
  };
  let end = 0;
  for (const name of order) {
    const start = end;
    end += stored[name].length;
    const { shape } = tensors[name];
    header[name] = { dtype: typeOf(name), shape, data_offsets: [start, end] };
  }
  return joined(
    header,
    order.map(name => stored[name]),
  );
}

/** @param {Values} values @param {string} type */
function toBytes(values, type) {
  const stored = type === 'F16' ? Uint16Array.from(values, toHalfBits) : values;
  return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
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

/** @param {object} header @param {Uint8Array[]} parts */
function joined(header, parts) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padding = -text.length & 7;
  const start = 8 + text.length + padding;
  const length = parts.reduce((sum, part) => sum + part.length, start);
  const bytes = new Uint8Array(length).fill(' '.charCodeAt(0), 0, start);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(start - 8), true);
  bytes.set(text, 8);
  let at = start;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
