// Long work must not block a page: it is done in slices, with pauses between them.

/** How long a slice of work may take; a task of 50 ms would be felt. */
const SLICE_MS = 12;
/** Elements between two looks at the clock: a multiple of four, of which a word may hold so many. */
const ELEMENTS_PER_LOOK = 2 ** 14;
let sliceStart = 0;

/** Whether the last pause was a while ago. */
export function isPauseDue() {
  return performance.now() - sliceStart > SLICE_MS;
}

/** Lets the page do its own work. A timer would wait 4 ms, and a second in a hidden page. */
export function nextTask() {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      sliceStart = performance.now();
      resolve(undefined);
    };
    port2.postMessage(0);
  });
}

/**
 * Calls `visit` for one range of 0, 1, … up to `count` after the other, with pauses. Ends early if
 * that returns false, and returns whether all ranges were visited.
 * @param {number} count @param {(from: number, to: number) => boolean | void} visit
 */
export async function inSlices(count, visit) {
  for (let from = 0; from < count; from += ELEMENTS_PER_LOOK) {
    if (isPauseDue()) await nextTask();
    if (visit(from, Math.min(from + ELEMENTS_PER_LOOK, count)) === false) return false;
  }
  return true;
}
