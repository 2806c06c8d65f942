// Which model and optimizers a checkpoint belongs to. Training resumes from it only if these are
// the same: moments of one kind of optimizer mean nothing to another. Settings such as the learning
// rate are not compared, because changing them during a training is common.

import { fail } from '../core/errors.js';
import { mapRecord, ownOf } from '../core/records.js';

/** @import { Plan, Tensors } from '../core/plan.js' */
/** @import { Arrays, Facts } from './safetensors.js' */

/** Whether a tensor belongs to an optimizer, and is saved only to resume. @param {string} name */
export function isOptimizerState(name) {
  return name.startsWith('opt/');
}

/** The kind of each optimizer. @param {Plan} plan @returns {Record<string, string>} */
export function optimizerKinds(plan) {
  return mapRecord(plan.optimizer ?? {}, ({ kind }) => kind);
}

/**
 * Refuses a checkpoint of another model or other optimizers, whose moments would give steps of the
 * wrong size.
 * @param {Plan} plan @param {Tensors} persistent @param {Arrays} tensors @param {Facts} facts
 */
export function checkIdentity(plan, persistent, tensors, facts) {
  const { model = plan.model.name, optimizer } = facts;
  if (model !== plan.model.name) mismatch(`is of the model ${model}; this is ${plan.model.name}`);
  if (optimizer) checkKinds(optimizer, optimizerKinds(plan));
  checkMoments(persistent, tensors, facts);
}

/** @param {Record<string, string>} saved @param {Record<string, string>} wanted */
function checkKinds(saved, wanted) {
  for (const name of Object.keys({ ...saved, ...wanted })) {
    const before = ownOf(saved, name) ?? 'none';
    const now = ownOf(wanted, name) ?? 'none';
    if (before !== now) mismatch(`was saved with another optimizer ${name}: ${before}, now ${now}`);
  }
}

/**
 * All tensors of the optimizers must be there, or none.
 * @param {Tensors} persistent @param {Arrays} tensors @param {Facts} facts
 */
function checkMoments(persistent, tensors, { steps = {} }) {
  const found = Object.keys(tensors).filter(isOptimizerState);
  const wanted = Object.keys(persistent).filter(isOptimizerState);
  const odd = [...wanted, ...found].find(
    name => !Object.hasOwn(tensors, name) || !Object.hasOwn(persistent, name),
  );
  if (odd && (found.length || Object.keys(steps).length))
    mismatch(`was saved with another optimizer: ${odd} is only in one of them`);
}

/** @param {string} what @returns {never} */
function mismatch(what) {
  const around = 'To start from its weights alone: restore(bytes, {weightsOnly: true})';
  return fail('mismatch', 'checkpoint', `${what}. ${around}`);
}

/**
 * Warnings about a checkpoint, if any.
 * @param {Plan} plan @param {Facts} facts
 */
export function notesOn({ model }, { steps, optimizer, source = model.sha256 }) {
  const notes = [];
  if (steps && !optimizer)
    notes.push(
      'The checkpoint does not record its kind of optimizer; it is assumed to be the same.',
    );
  if (source !== model.sha256)
    notes.push(
      `The checkpoint was saved with another version of the source of ${model.name}; names, shapes and optimizers are the same.`,
    );
  return notes;
}
