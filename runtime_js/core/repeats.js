// Loops of a plan: in which order dispatches run, and how often each. Ranges are nested or disjoint,
// and an outer one is listed before those inside it.

/** @import { Entry, Repeat } from './plan.js' */
/** @typedef {{done: number, rounds: number}[]} Rounds of the loops around, outermost first */

/**
 * The number of each dispatch as one call runs them, and the rounds it is in.
 * @param {Entry} entry @returns {Generator<[number, Rounds]>}
 */
export function runOrder({ dispatches, repeats = [] }) {
  return inOrder(0, dispatches.length, repeats, []);
}

/**
 * @param {number} start @param {number} end @param {Repeat[]} repeats @param {Rounds} around
 * @returns {Generator<[number, Rounds]>}
 */
function* inOrder(start, end, repeats, around) {
  let at = start;
  for (let i = 0; i < repeats.length; ) {
    const { first, count, rounds } = repeats[i++];
    const after = first + count;
    const inner = [];
    while (i < repeats.length && repeats[i].first < after) inner.push(repeats[i++]);
    for (; at < first; at++) yield [at, around];
    for (let done = 1; done <= rounds; done++)
      yield* inOrder(first, after, inner, [...around, { done, rounds }]);
    at = after;
  }
  for (; at < end; at++) yield [at, around];
}

/** How often one call runs each dispatch. @param {Entry} entry */
export function timesRun({ dispatches, repeats = [] }) {
  return dispatches.map((_, number) =>
    repeats.reduce(
      (times, { first, count, rounds }) =>
        first <= number && number < first + count ? times * rounds : times,
      1,
    ),
  );
}

/** How many dispatches one call runs. @param {Entry} entry */
export function runCount(entry) {
  return timesRun(entry).reduce((sum, times) => sum + times, 0);
}
