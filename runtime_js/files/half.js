// Numbers of 16 bits, as files store them.

/** The bits of the nearest half-precision number. @param {number} x */
export function toHalfBits(x) {
  const magnitude = Math.abs(x);
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  // Adding it rounds to integers, halfway cases to even ones.
  const rounding = 1.5 * 2 ** 52;
  const sign = (x || 1 / x) < 0 ? 0x8000 : 0;
  if (magnitude >= 65520) return sign | 0x7c00;
  const mantissa = magnitude / 2 ** (exponent - 10) + rounding - rounding;
  return sign | (((exponent + 14) << 10) + mantissa);
}

/** @param {number} bits */
export function fromHalfBits(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  if (exponent === 31) return sign * Infinity;
  const mantissa = (exponent ? 1024 : 0) + (bits & 1023);
  return sign * 2 ** (Math.max(1, exponent) - 25) * mantissa;
}

/** Whether JavaScript has no array of a file's type. @param {string} dtype */
export function isHalf(dtype) {
  return dtype === 'F16' || dtype === 'BF16';
}

/** All numbers of half precision by their bits, made when they are first read. @type {Float32Array | undefined} */
let numbers;

/** @param {Uint16Array} bits @param {string} dtype F16 or BF16 */
export function fromHalves(bits, dtype) {
  if (dtype === 'F16') {
    const table = halfNumbers();
    return Float32Array.from(bits, half => table[half]);
  }
  return new Float32Array(Uint32Array.from(bits, half => half << 16).buffer);
}

function halfNumbers() {
  numbers ??= Float32Array.from({ length: 2 ** 16 }, (_, half) => fromHalfBits(half));
  return numbers;
}
