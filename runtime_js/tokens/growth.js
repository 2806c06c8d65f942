// How much longer a text may become while it is encoded or decoded: steps of a foreign file may
// multiply it again and again. Mirrors growth.py.

import { fail } from '../core/errors.js';

const MOST_TIMES = 64;
/** Beside that, so that short texts may get long tokens. */
const FREE = 65_536;
const MOST_STEPS = 100;

/** @param {number} length */
export function longestFrom(length) {
  return MOST_TIMES * length + FREE;
}

/** @param {number} length @param {number} most */
export function checkGrowth(length, most) {
  if (length > most)
    fail(
      'bundle',
      'text',
      `tokenizer.json would make more than ${most} characters of a text that has fewer than ` +
        `1/${MOST_TIMES} of that: build the model again`,
    );
}

/** @template T @param {T[]} steps @returns {T[]} */
export function checkedSteps(steps) {
  if (steps.length > MOST_STEPS) throw new Error(`more than ${MOST_STEPS} steps`);
  return steps;
}
