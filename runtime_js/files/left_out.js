// What checkpoints leave out: weights that are in the bundle, of models that correct them. A model
// with weights of 4 bits learns a few corrections; only these, and their moments, are saved. Mirrors
// left_out.py.

import { elementCount, WORD_BYTES, wordCount } from '../core/plan.js';
import { filterRecord } from '../core/records.js';

/** @import { Entry, Plan, Tensor, Tensors } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */

/** Models whose weights to correct are not those of the bundle. @type {WeakSet<Session>} */
const changed = new WeakSet();

/**
 * Parameters that no entry writes, and state that has nothing to do with training: only of models
 * that train beside parameters that come from outside, and so are in the bundle.
 * @param {Plan} plan @param {Tensors} persistent @returns {Set<string>}
 */
export function leftOut({ entries }, persistent) {
  const training = Object.values(entries).filter(entry => entry.training);
  const isOutside = (/** @type {Tensor} */ { role, init }) =>
    role === 'param' && init?.kind === 'external';
  if (!training.length || !Object.values(persistent).some(isOutside)) return new Set();
  const written = new Set(Object.values(entries).flatMap(entry => entry.writes));
  const fixed = namesOf(persistent, ({ role }, name) => role === 'param' && !written.has(name));
  return new Set([...fixed, ...scratch(Object.values(entries), training, persistent)]);
}

/**
 * Caches that training does not use, and the counters that are written with them.
 * @param {Entry[]} entries @param {Entry[]} training @param {Tensors} persistent
 */
function scratch(entries, training, persistent) {
  const learned = new Set(training.flatMap(entry => entry.writes));
  const state = filterRecord(
    persistent,
    ({ role }, name) => role === 'state' && !learned.has(name),
  );
  const isCache = (/** @type {Tensor} */ tensor) =>
    elementCount(tensor.shape) > 1 && !isUsed(training, tensor);
  const caches = new Set(namesOf(state, isCache));
  const together = entries.filter(({ writes }) => writes.some(name => caches.has(name)));
  // Kernels bind several scalars at once, so that bindings do not tell which of them they use.
  const counters = new Set(together.flatMap(({ writes }) => writes));
  const isCounter = (/** @type {Tensor} */ { shape }, /** @type {string} */ name) =>
    elementCount(shape) === 1 && counters.has(name);
  return [...caches, ...namesOf(state, isCounter)];
}

/** @param {Tensors} tensors @param {(tensor: Tensor, name: string) => boolean} isWanted */
function namesOf(tensors, isWanted) {
  return Object.keys(filterRecord(tensors, isWanted));
}

/** Whether one of them reads or writes it. @param {Entry[]} entries @param {Tensor} tensor */
function isUsed(entries, tensor) {
  const end = tensor.offset + wordCount(tensor) * WORD_BYTES;
  const dispatches = entries.flatMap(entry => entry.dispatches);
  return dispatches.some(({ bindings }) =>
    bindings.some(
      ({ buffer, offset, size }) =>
        buffer === tensor.buffer && offset < end && tensor.offset < offset + size,
    ),
  );
}

/** What a checkpoint leaves out now. @param {Session} session @returns {Set<string>} */
export function omittedNow(session) {
  if (changed.has(session)) return new Set();
  const omitted = leftOut(session.plan, session.values.tensors);
  return hasParameter(session, Object.keys(session.values.stored.given), omitted)
    ? new Set()
    : omitted;
}

/** Values that were written, by name. @param {Session} session @param {Record<string, any>} words */
export function noteChanged(session, words) {
  const omitted = leftOut(session.plan, session.values.tensors);
  if (hasParameter(session, Object.keys(words), omitted)) changed.add(session);
}

/** @param {Session} session @param {string[]} names @param {Set<string>} omitted */
function hasParameter({ values }, names, omitted) {
  return names.some(name => omitted.has(name) && values.tensors[name].role === 'param');
}
