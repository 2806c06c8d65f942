// SHA-256 for pages from http, where browsers offer no digests.

const ROUNDS = 64;
const BLOCK_BYTES = 64;

/** @param {BufferSource} data @returns {string} in hexadecimal */
export function sha256(data) {
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
  const view = new DataView(padded(bytes));
  const { state, constants } = TABLES;
  const hash = state.slice();
  for (let at = 0; at < view.byteLength; at += BLOCK_BYTES) mix(hash, view, at, constants);
  return Array.from(hash, word => word.toString(16).padStart(8, '0')).join('');
}

/** With a one after the last bit, and the number of bits at the end. @param {Uint8Array} bytes */
function padded(bytes) {
  const { length } = bytes;
  const whole = new Uint8Array(BLOCK_BYTES * Math.ceil((length + 9) / BLOCK_BYTES));
  whole.set(bytes);
  whole[length] = 0x80;
  new DataView(whole.buffer).setBigUint64(whole.length - 8, 8n * BigInt(length));
  return whole.buffer;
}

/**
 * @param {Uint32Array} hash @param {DataView} view @param {number} at
 * @param {Uint32Array} constants
 */
function mix(hash, view, at, constants) {
  const words = new Uint32Array(ROUNDS);
  for (let i = 0; i < 16; i++) words[i] = view.getUint32(at + 4 * i);
  for (let i = 16; i < ROUNDS; i++) {
    const early = words[i - 15];
    const late = words[i - 2];
    const first = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3);
    const second = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10);
    words[i] = words[i - 16] + first + words[i - 7] + second;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < ROUNDS; i++) {
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const sumOfE = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const sumOfA = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
    const mixed = (h + sumOfE + choice + constants[i] + words[i]) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + mixed) | 0, c, b, a, (mixed + sumOfA + majority) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    hash[i] += word;
  });
}

/** @param {number} word @param {number} bits */
function rotated(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

/** Bits of the fractions of square and cube roots of the first primes, as the standard says. */
const TABLES = (() => {
  const primes = [2];
  for (let n = 3; primes.length < ROUNDS; n += 2)
    if (primes.every(prime => n % prime)) primes.push(n);
  const fraction = (/** @type {number} */ root) => (root % 1) * 2 ** 32;
  return {
    state: Uint32Array.from(primes.slice(0, 8), prime => fraction(Math.sqrt(prime))),
    constants: Uint32Array.from(primes, prime => fraction(Math.cbrt(prime))),
  };
})();
