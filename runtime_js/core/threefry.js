// The counter-based random generator of initial values, shuffles and self-tests.

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
];
const PARITY = 0x1bd11bda;

/**
 * Threefry-2x32 with 20 rounds: words that depend on two keys, step and position alone.
 * @param {number} seed @param {number} secondKey @param {number} count @param {number} [step]
 * @param {number} [first] position
 */
export function randomWords(seed, secondKey, count, step = 0, first = 0) {
  const keys = [seed, secondKey, seed ^ secondKey ^ PARITY];
  return new Uint32Array(count).map((_, i) => threefry(keys, step, first + i));
}

/**
 * The first of the two words that the generator makes of a counter.
 * @param {number[]} keys @param {number} step @param {number} position
 */
function threefry(keys, step, position) {
  let a = (step + keys[0]) | 0;
  let b = (position + keys[1]) | 0;
  for (let group = 0; group < 5; group++) {
    for (const rotation of ROTATIONS[group % 2]) {
      a = (a + b) | 0;
      b = ((b << rotation) | (b >>> (32 - rotation))) ^ a;
    }
    a = (a + keys[(group + 1) % 3]) | 0;
    b = (b + keys[(group + 2) % 3] + group + 1) | 0;
  }
  return a;
}
