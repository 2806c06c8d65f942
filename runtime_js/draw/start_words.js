// Draws the initial values that are not given or stored.

import { fail } from '../core/errors.js';
import { bytesOf, totalBytes } from '../core/plan.js';
import { filterRecord, ownOf } from '../core/records.js';
import { initialValues } from './initial.js';

/** @import { NamedWords } from '../core/arrays.js' */
/** @import { OnBytes } from '../core/loader.js' */
/** @import { Tensor, Tensors } from '../core/plan.js' */

/** The state that seeds the random numbers of a training. */
export const SEED_STATE = 'rng/seed';

/** Fewer bytes are drawn in a moment. */
const REPORTED_BYTES = 2 ** 23;

/**
 * With a seed, random values are drawn from it; given weights are kept in any case, also those that
 * the bundle was built with. Without one, values that no file holds are drawn from the seed that
 * the bundle was built with.
 * @param {Tensors} tensors parameters and state @param {NamedWords} own the bundle's values
 * @param {NamedWords} given @param {number | null} [seed]
 * @param {{ seed?: number }} [record] of the weights file, in the plan: no seed if they were given
 * @param {OnBytes} [onBytes] is called with the bytes that are drawn, and all
 */
export async function startWords(tensors, own, given, seed, record, onBytes) {
  if (seed != null && seed >>> 0 !== seed)
    fail('range', 'seed', `is a whole number from 0 to 4294967295, not ${seed}`);
  const drawSeed = seed ?? record?.seed ?? tensors[SEED_STATE]?.init?.values?.[0] ?? 0;
  const words = /** @type {NamedWords} */ (Object.create(null));
  const areGiven = record && record.seed === undefined;
  const isKept = (/** @type {string} */ name, /** @type {Tensor} */ { init }) =>
    seed == null || (name !== SEED_STATE && (areGiven || init?.kind === 'external'));
  const storedOf = (/** @type {string} */ name, /** @type {Tensor} */ tensor) =>
    ownOf(given, name) ?? (isKept(name, tensor) ? ownOf(own, name) : undefined);
  const isDrawn = (/** @type {Tensor} */ tensor, /** @type {string} */ name) =>
    (tensor.init?.kind ?? 'zeros') !== 'zeros' && !storedOf(name, tensor);
  const report = reporter(filterRecord(tensors, isDrawn), onBytes);
  for (const [name, tensor] of Object.entries(tensors)) {
    const stored = storedOf(name, tensor);
    if (stored) words[name] = stored;
    else if (tensor.init?.kind !== 'copy')
      words[name] = await initialValues(tensor, drawSeed, name);
    if (isDrawn(tensor, name)) report(tensor);
  }
  const isSeeded = seed != null && words[SEED_STATE] && !ownOf(given, SEED_STATE);
  if (isSeeded) words[SEED_STATE] = Uint32Array.of(seed);
  copyOthers(words, tensors);
  return words;
}

/**
 * @param {Tensors} tensors @param {OnBytes} [onBytes]
 * @returns {(tensor: Tensor) => void} is called when a tensor has its values
 */
function reporter(tensors, onBytes) {
  const total = totalBytes(Object.values(tensors));
  let done = 0;
  return tensor => {
    done += bytesOf(tensor);
    if (total > REPORTED_BYTES) onBytes?.(done, total);
  };
}

/** What starts as another tensor. @param {NamedWords} words @param {Tensors} tensors */
function copyOthers(words, tensors) {
  for (const [name, { init }] of Object.entries(tensors)) words[name] ??= words[init?.of ?? ''];
}
