// The inputs of one call, and what marks a data set.

import { toWords } from './arrays.js';
import { loadCalls } from './parts.js';
import { mapRecord, ownOf } from './records.js';

/** @import { NamedWords } from './arrays.js' */
/** @import { Plan, Range, Tensor } from './plan.js' */

/** What `readData` returns has this key: arrays, and the preparation that made them. */
export const DATA = Symbol.for('wgcc.data');

/**
 * Whether an input is no list of numbers, but may stand for one: nested arrays, a picture, a buffer
 * of the GPU.
 * @param {any} value
 */
export function isUnusual(value) {
  return (
    Object(value) === value && (typeof value.map !== 'function' || Object(value[0]) === value[0])
  );
}

/**
 * Nested arrays and pictures become lists of numbers.
 * @param {Plan} plan @param {string} entryName @param {any} inputs
 */
export async function withoutUnusual(plan, entryName, inputs) {
  if (!Object.values(Object(inputs)).some(isUnusual)) return inputs;
  return (await loadCalls()).plainInputs(plan, entryName, inputs);
}

/**
 * One call's inputs as words, after checks of names, shapes, types and ranges; undefined if
 * something is wrong.
 * @param {Plan} plan @param {string} entryName @param {any} batch
 * @returns {NamedWords | undefined}
 */
export function batchOf(plan, entryName, batch) {
  return visitInputs(plan, entryName, batch, toWords);
}

/**
 * The result of `visit` for each input; undefined if one is missing, wrong or unknown.
 * @template T
 * @param {Plan} plan @param {string} entryName @param {any} batch
 * @param {(value: any, tensor: Tensor, allowed?: Range | [number, number]) => T | undefined} visit
 * @returns {Record<string, T> | undefined}
 */
export function visitInputs(plan, entryName, batch, visit) {
  // What every object inherits, such as `toString`, has no inputs.
  const { inputs, ranges } = plan.entries[entryName] ?? {};
  const given = Object(batch);
  if (!inputs || !Object.keys(given).every(port => Object.hasOwn(inputs, port))) return;
  const found = mapRecord(inputs, (id, port) =>
    visit(given[port], plan.tensors[id], ownOf(ranges, port)),
  );
  const isComplete = Object.values(found).every(value => value !== undefined);
  if (isComplete) return /** @type {Record<string, T>} */ (found);
}
