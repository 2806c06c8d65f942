// The checksum of checkpoints, and the key that a tensor's name gives to its random numbers.

const POLYNOMIAL = 0xedb88320;
const TABLE = new Uint32Array(256).map((_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? POLYNOMIAL ^ (crc >>> 1) : crc >>> 1;
  return crc;
});

/** @param {Uint8Array} bytes @param {number} [start] the CRC of what comes before them */
export function crc32(bytes, start = 0) {
  let crc = ~start;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}
