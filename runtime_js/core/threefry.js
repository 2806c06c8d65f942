// The counter-based random generator of initial values, shuffles and self-tests.

/** Of round number n: the one at n % 8. */
const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24];
const PARITY = 0x1bd11bda;

/**
 * Threefry-2x32 with 20 rounds: words that depend on two keys, step and position alone.
 * @param {number} seed @param {number} secondKey @param {number} count @param {number} [step]
 * @param {number} [first] position
 */
export function randomWords(seed, secondKey, count, step = 0, first = 0) {
  const keys = [seed | 0, secondKey | 0, seed ^ secondKey ^ PARITY];
  const words = new Uint32Array(count);
  for (let i = 0; i < count; i++) words[i] = threefry(keys, step, first + i);
  return words;
}

/**
 * The first of the two words that the generator makes of a counter.
 * @param {number[]} keys @param {number} step @param {number} position
 */
function threefry(keys, step, position) {
  let a = (step + keys[0]) | 0;
  let b = (position + keys[1]) | 0;
  for (let round = 0; round < 20; round++) {
    const rotation = ROTATIONS[round & 7];
    a = (a + b) | 0;
    b = ((b << rotation) | (b >>> (32 - rotation))) ^ a;
    if ((round & 3) < 3) continue;
    const group = (round + 1) >> 2;
    a = (a + keys[group % 3]) | 0;
    b = (b + keys[(group + 1) % 3] + group) | 0;
  }
  return a;
}
