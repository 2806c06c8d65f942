// Reads .npy files: one array each. Objects, which Python would unpickle, are refused.

import { fromHalfBits } from '../files/half.js';

const MAGIC = [0x93, ...new TextEncoder().encode('NUMPY')];
/** Element types, but for the order of their bytes. @type {Record<string, any>} */
const TYPES = {
  f2: Uint16Array,
  f4: Float32Array,
  f8: Float64Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  i8: BigInt64Array,
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  u8: BigUint64Array,
  b1: Uint8Array,
};

/**
 * A typed array with its shape. Throws any error if the file is malformed.
 * @param {Uint8Array} bytes
 */
export function readNpy(bytes) {
  const { header, start } = headerOf(bytes);
  const type = /'descr': *'([<>|=]?)(\w+)'/.exec(header);
  const sizes = /'shape': *\(([\d, ]*)\)/.exec(header);
  if (!type || !Object.hasOwn(TYPES, type[2]) || !sizes)
    throw new Error('its elements are no numbers');
  const shape = (sizes[1].match(/\d+/g) ?? []).map(Number);
  const count = shape.reduce((product, size) => product * size, 1);
  const element = TYPES[type[2]];
  const length = count * element.BYTES_PER_ELEMENT;
  if (start + length > bytes.length) throw new Error('it is cut off');
  const stored = bytes.slice(start, start + length);
  if (type[1] === '>') swap(stored, element.BYTES_PER_ELEMENT);
  const array = new element(stored.buffer);
  const list = type[2] === 'f2' ? Float32Array.from(array, fromHalfBits) : array;
  const isFortran = /'fortran_order': *True/.test(header);
  return Object.assign(isFortran ? rowMajor(list, shape) : list, { shape });
}

/** @param {Uint8Array} bytes */
function headerOf(bytes) {
  const text = new TextDecoder('latin1');
  if (!MAGIC.every((byte, i) => bytes[i] === byte)) throw new Error('it is not a .npy file');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLong = bytes[6] > 1;
  const size = isLong ? view.getUint32(8, true) : view.getUint16(8, true);
  const from = isLong ? 12 : 10;
  return { header: text.decode(bytes.subarray(from, from + size)), start: from + size };
}

/** @param {Uint8Array} bytes @param {number} size of an element */
function swap(bytes, size) {
  for (let at = 0; at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
}

/** The elements of an array whose first index runs fastest. @param {any} list @param {number[]} shape */
function rowMajor(list, shape) {
  const strides = shape.map((_, axis) => shape.slice(0, axis).reduce((a, b) => a * b, 1));
  return list.map((/** @type {any} */ _, /** @type {number} */ i) => {
    let rest = i;
    let at = 0;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += (rest % shape[axis]) * strides[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    return list[at];
  });
}
