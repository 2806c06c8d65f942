// How many steps a submit should have. Its time is a latency, the same for any number of steps, and
// the time of its steps. The latency may be long (100 ms in Firefox) and then says nothing of the
// steps, so both are estimated from submits of different sizes.

/** @typedef {{count: number, times: number[]}} Size a number of steps, and such submits took */

/** The steps of one submit aim at this many milliseconds, which keeps a page smooth. */
const SUBMIT_MS = 40;
/** A submit that takes longer is not made larger only to find out how long its steps take. */
const LARGEST_TRIAL_MS = 1000;
/** After this many submits of the largest fitting size, a larger one is tried again. */
const SUBMITS_UNTIL_TRIAL = 50;
/** A size is left after as many measurements at the earliest, because a single one says little. */
const TRIAL_SUBMITS = 3;
const KEPT_TIMES = 5;
const KEPT_SIZES = 4;

export class Pace {
  /** Those that were measured last, the newest at the end. @type {Size[]} */
  #sizes = [];
  #sinceTrial = 0;

  /**
   * The number of steps for the submit after one that had `count` and took `ms`.
   * @param {number} count @param {number} ms
   */
  next(count, ms) {
    const { times } = this.#measure(count, ms);
    // Without any latency.
    const surelyFitting = (SUBMIT_MS * count) / ms;
    if (surelyFitting >= 4 * count) return 4 * count;
    const fitting = Math.floor(Math.max(1, surelyFitting, SUBMIT_MS / this.#perStep()));
    // The last submit may have been cut short by a report.
    if (fitting > count) return Math.min(fitting, 2 * this.#largest());
    if (fitting < count && times.length < TRIAL_SUBMITS && ms < LARGEST_TRIAL_MS) return count;
    return this.#isTrialDue(ms) ? 2 * count : fitting;
  }

  /** @param {number} count @param {number} ms @returns {Size} */
  #measure(count, ms) {
    const times = this.#sizes.find(size => size.count === count)?.times ?? [];
    const size = { count, times: [...times.slice(1 - KEPT_TIMES), ms] };
    const others = this.#sizes.filter(other => other.count !== count);
    this.#sizes = [...others.slice(1 - KEPT_SIZES), size];
    return size;
  }

  /**
   * The time by which a submit grows with each step: the slope of the line through all sizes. The
   * shortest time of each counts, because all that disturbs makes it longer. Infinity for one size.
   */
  #perStep() {
    const sizes = this.#sizes;
    if (sizes.length < 2) return Infinity;
    const meanCount = sizes.reduce((sum, { count }) => sum + count, 0) / sizes.length;
    let products = 0;
    let squares = 0;
    for (const { count, times } of sizes) {
      products += (count - meanCount) * Math.min(...times);
      squares += (count - meanCount) ** 2;
    }
    return Math.max(0, products / squares);
  }

  /** The most steps in a submit of late. */
  #largest() {
    return Math.max(...this.#sizes.map(({ count }) => count));
  }

  /** @param {number} ms of the last submit */
  #isTrialDue(ms) {
    const isDue = this.#sizes.length < 2 || ++this.#sinceTrial >= SUBMITS_UNTIL_TRIAL;
    if (!isDue || ms > LARGEST_TRIAL_MS) return false;
    this.#sinceTrial = 0;
    return true;
  }
}
