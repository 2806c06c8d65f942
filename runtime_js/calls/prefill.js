// The entry that reads prompts in chunks.

import { ownOf } from '../core/records.js';

/** @import { Plan } from '../core/plan.js' */

export const PREFILL = 'prefill';

/**
 * The entry `prefill`, if it takes several ids, and changes what the one that writes does.
 * @param {Plan} plan @param {string} entryName
 */
export function chunkOf({ entries, tensors }, entryName) {
  const prefill = ownOf(entries, PREFILL);
  const [[input, key] = ['', ''], ...others] = Object.entries(prefill?.inputs ?? {});
  const { shape = [], dtype = '' } = ownOf(tensors, key) ?? {};
  const namesOf = (/** @type {any} */ entry) => [...(entry.writes ?? [])].sort().join();
  const isIt =
    shape.length === 1 &&
    ['i32', 'u32'].includes(dtype) &&
    !prefill?.training &&
    !others.length &&
    namesOf(prefill) === namesOf(entries[entryName]);
  return { input, size: isIt && shape[0] > 1 ? shape[0] : 0 };
}
