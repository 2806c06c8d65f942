// The checksum of checkpoints, and the key that a tensor's name gives to its random numbers.

const POLYNOMIAL = 0xedb88320;
/** The highest bit is the coefficient of 1, the lowest that of x ** 31. */
const ONE = 0x80000000;
const X_TO_THE_8 = 0x00800000;
const TABLE = new Uint32Array(256).map((_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = timesX(crc);
  return crc;
});

/** @param {Uint8Array} bytes @param {number} [start] the CRC of what comes before them */
export function crc32(bytes, start = 0) {
  let crc = ~start;
  // An iterator would take four times as long: saving 3 MB would block a page for 60 ms.
  for (let i = 0; i < bytes.length; i++) crc = TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

/**
 * The CRC of two parts, one behind the other, from those of each: the first times x ** (8 * bytes of
 * the second), plus the second.
 * @param {number} first @param {number} second @param {number} secondBytes
 */
export function joinedCrc(first, second, secondBytes) {
  let power = X_TO_THE_8;
  let shift = ONE;
  for (let left = secondBytes; left > 0; left = Math.floor(left / 2)) {
    if (left % 2) shift = product(shift, power);
    power = product(power, power);
  }
  return (product(shift, first) ^ second) >>> 0;
}

/** Of polynomials over two elements, modulo that of the CRC. @param {number} a @param {number} b */
function product(a, b) {
  let sum = 0;
  for (let bit = ONE, shifted = b; bit; bit >>>= 1, shifted = timesX(shifted))
    if (a & bit) sum ^= shifted;
  return sum;
}

/** @param {number} a */
function timesX(a) {
  return a & 1 ? POLYNOMIAL ^ (a >>> 1) : a >>> 1;
}
