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
  // An iterator would take four times as long: saving 3 MB would block a page for 60 ms.
  for (let i = 0; i < bytes.length; i++) crc = TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}
