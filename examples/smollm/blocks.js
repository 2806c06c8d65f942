// Blocks of a GGUF file as the parameters of packed layers: what pack.py of wgcc/from_gguf does. A
// file has matrices [outputs, inputs] in blocks along the inputs; a model has them [inputs, outputs].

import { fromHalfBits } from '../../runtime_js/files/half.js';

const GROUP = 32;
/** Types that the 4-bit layers hold, and the 8-bit ones, with the bytes of a block before its weights. */
export const FOUR_BITS = ['Q4_0', 'Q4_1', 'Q4_K'];
export const EIGHT_BITS = { Q8_0: 32, Q4_0: 32, Q5_0: 32, Q6_K: 16 };

const halfAt = (bytes, at) => fromHalfBits(bytes[at] | (bytes[at + 1] << 8));

/**
 * A matrix for Q4Linear, by the names of its parameters.
 * @param {Uint8Array} bytes @param {{name: string, elements: number, bytes: number}} type
 * @param {number} outputs @param {number} inputs @param {(row: number) => number} place of a row
 */
export function fourBits(bytes, type, outputs, inputs, place) {
  const w = new Uint8Array((inputs / 2) * outputs);
  const scale = new Float32Array((inputs / GROUP) * outputs);
  const low = new Float32Array((inputs / GROUP) * outputs);
  const blocks = inputs / type.elements;
  for (let row = 0; row < outputs; row++) {
    const column = place(row);
    for (let block = 0; block < blocks; block++) {
      const at = (row * blocks + block) * type.bytes;
      const groups = type.name === 'Q4_K' ? groupsOfK(bytes, at) : [groupOf(bytes, at, type.name)];
      groups.forEach(({ d, m, nibbles, start }, k) => {
        const group = block * groups.length + k;
        scale[group * outputs + column] = d;
        low[group * outputs + column] = m;
        for (let i = 0; i < 16; i++) w[(group * 16 + i) * outputs + column] = nibbles[start + i];
      });
    }
  }
  return { w, scale, low };
}

/** Scale and low of a block of Q4_0 or Q4_1, and where its 16 bytes are. */
function groupOf(bytes, at, name) {
  const d = halfAt(bytes, at);
  const start = at + (name === 'Q4_1' ? 4 : 2);
  const m = name === 'Q4_1' ? halfAt(bytes, at + 2) : -8 * d;
  return { d, m, nibbles: bytes, start };
}

/** The eight groups of a block of Q4_K, whose scales and minima have 6 bits. */
function groupsOfK(bytes, at) {
  const [d, least] = [halfAt(bytes, at), halfAt(bytes, at + 2)];
  const packed = bytes.subarray(at + 4, at + 16);
  return Array.from({ length: 8 }, (_, j) => {
    const i = j % 4;
    const isFirst = j < 4;
    const s = isFirst ? packed[i] & 63 : (packed[8 + i] & 15) | ((packed[i] >> 6) << 4);
    const l = isFirst ? packed[4 + i] & 63 : (packed[8 + i] >> 4) | ((packed[4 + i] >> 6) << 4);
    const start = at + 16 + 32 * (j >> 1);
    const q = Array.from(bytes.subarray(start, start + 32), byte =>
      j % 2 ? byte >> 4 : byte & 15,
    );
    const nibbles = Uint8Array.from({ length: 16 }, (_, k) => q[k] | (q[k + 16] << 4));
    return { d: Math.fround(d * s), m: Math.fround(-least * l), nibbles, start: 0 };
  });
}

/** The integers and scales of one row, in its own order: w [inputs], scale [inputs / group]. */
export function rowOfBytes(bytes, type, row, inputs, group) {
  const w = new Int8Array(inputs);
  const scale = new Float32Array(inputs / group);
  const blocks = inputs / type.elements;
  for (let block = 0; block < blocks; block++) {
    const at = (row * blocks + block) * type.bytes;
    const q = w.subarray(block * type.elements, (block + 1) * type.elements);
    const scales = INTEGERS[type.name](bytes, at, q);
    const each = type.elements / group;
    for (let k = 0; k < each; k++)
      scale[block * each + k] = scales[Math.floor((k * scales.length) / each)];
  }
  return { w, scale };
}

/** Fills in the integers of a block; gives its scales. */
const INTEGERS = {
  Q8_0: (bytes, at, q) => {
    for (let i = 0; i < 32; i++) q[i] = (bytes[at + 2 + i] << 24) >> 24;
    return [halfAt(bytes, at)];
  },
  Q4_0: (bytes, at, q) => {
    for (let i = 0; i < 16; i++) {
      q[i] = (bytes[at + 2 + i] & 15) - 8;
      q[i + 16] = (bytes[at + 2 + i] >> 4) - 8;
    }
    return [halfAt(bytes, at)];
  },
  Q5_0: (bytes, at, q) => {
    const bit = i => ((bytes[at + 2 + (i >> 3)] >> (i & 7)) & 1) << 4;
    for (let i = 0; i < 16; i++) {
      q[i] = ((bytes[at + 6 + i] & 15) | bit(i)) - 16;
      q[i + 16] = ((bytes[at + 6 + i] >> 4) | bit(i + 16)) - 16;
    }
    return [halfAt(bytes, at)];
  },
  Q6_K: (bytes, at, q) => {
    for (let i = 0; i < 256; i++) {
      const half = i >> 7;
      const j = i & 127;
      const low = (bytes[at + 64 * half + (j & 63)] >> (j < 64 ? 0 : 4)) & 15;
      const high = (bytes[at + 128 + 32 * half + (j & 31)] >> (2 * (j >> 5))) & 3;
      q[i] = (low | (high << 4)) - 32;
    }
    const d = halfAt(bytes, at + 208);
    return Array.from({ length: 16 }, (_, i) =>
      Math.fround(d * ((bytes[at + 192 + i] << 24) >> 24)),
    );
  },
};
