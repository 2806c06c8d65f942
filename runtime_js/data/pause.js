// Reading a large file must not block a page: work is done in slices, with pauses between them.

import { isPauseDue, nextTask } from '../core/pause.js';

/** Indices or items between two looks at the clock; an item may be a row of a thousand cells. */
const INDICES_PER_LOOK = 512;
const ITEMS_PER_LOOK = 8;

/** Lets the page do its own work, if the last pause was a while ago. */
export async function pause() {
  if (isPauseDue()) await nextTask();
}

/**
 * Calls `visit` for 0, 1, … up to `count`, with pauses.
 * @param {number} count @param {(i: number) => void} visit
 */
export async function forEachIndex(count, visit) {
  for (let start = 0; start < count; start += INDICES_PER_LOOK) {
    const end = Math.min(count, start + INDICES_PER_LOOK);
    for (let i = start; i < end; i++) visit(i);
    if (isPauseDue()) await nextTask();
  }
}

/**
 * Calls `visit` for each item, with pauses.
 * @template T @param {Iterable<T>} items @param {(item: T) => void} visit
 */
export async function forEachItem(items, visit) {
  let steps = 0;
  for (const item of items) {
    visit(item);
    if (++steps % ITEMS_PER_LOOK === 0 && isPauseDue()) await nextTask();
  }
}
