// After a failed submit: finds the call whose index is out of range, or the call, and the first
// kernel of that call, that writes a NaN or infinity.

import { fail } from '../core/errors.js';
import { Guard } from '../core/guard.js';
import { bytesOf, isFloat, isPersistent, WORD_BYTES } from '../core/plan.js';
import { runOrder } from '../core/repeats.js';

/** @import { NamedWords } from '../core/arrays.js' */
/** @import { Machine } from '../core/machine.js' */
/** @import { Binding, Dispatch, RangeCheck, Tensor } from '../core/plan.js' */
/** @import { Rounds } from '../core/repeats.js' */
/** @import { Outcome } from '../core/runner.js' */
/** @import { Session } from '../core/session.js' */

/** Roles of buffers that hold values of the failed step. */
const TEMPORARY_ROLES = ['temp', 'grads', 'output'];
const EXPONENT = 0x7f800000;
/** Sign and the highest bit of the mantissa, which quiet NaNs have. */
const SIGN_AND_QUIET = 0x80400000;

/**
 * After a submit that failed and was undone: repeats its calls one by one, and throws at the one
 * that fails.
 * @param {Session} session @param {string} entryName @param {NamedWords[]} batches
 * @param {Guard} guard @param {Outcome} outcome @param {(calls: number) => void} [onKept]
 */
export async function blameCalls(session, entryName, batches, guard, outcome, onKept) {
  const { badOutput, failedCheck, kept } = outcome;
  if (guard.canRestore && batches.length > 1) {
    onKept?.(kept);
    for (const batch of batches.slice(kept)) {
      await session.run(entryName, [batch], badOutput ? [badOutput] : []);
      onKept?.(1);
    }
    // All succeeded this time; the caller counts them all.
    onKept?.(-batches.length);
    return;
  }
  const step = session.stepsOf(entryName) + batches.length;
  const after = guard.canRestore
    ? 'the model is as it was before'
    : 'there was not enough memory to undo that: restore the last checkpoint';
  if (failedCheck) {
    const when = session.plan.entries[entryName].training ? `at step ${step} ` : '';
    fail('range', entryName, `${when}has ${outside(failedCheck)}; ${after}`);
  }
  writeInputs(session.machine, entryName, batches[0]);
  const where = guard.canRestore ? await blameAndUndo(session.machine, entryName, guard) : '';
  const what = badOutput ? `\`${badOutput}\`` : 'a parameter or state';
  fail('nan', entryName, `step ${step}: ${what} is not finite${where}; ${after}`);
}

/**
 * Once more: inputs that are one number are stored beside state, which was restored.
 * @param {Machine} machine @param {string} entryName @param {NamedWords} batch
 */
function writeInputs(machine, entryName, batch) {
  const { entries, tensors } = machine.plan;
  for (const [port, id] of Object.entries(entries[entryName].inputs))
    if ('byteLength' in batch[port]) machine.write(tensors[id], batch[port]);
}

/**
 * What `blame` says; for steps that check themselves, with copies that are made only for this.
 * @param {Machine} machine @param {string} entryName @param {Guard} guard
 * @returns {Promise<string>}
 */
async function blameAndUndo(machine, entryName, guard) {
  if (!guard.isChecked) {
    const where = await blame(machine, entryName);
    await guard.restore();
    return where;
  }
  const copies = await Guard.make(machine, entryName, true, true);
  if (!copies.canRestore) return '';
  await machine.finish(encoder => copies.before(encoder));
  const where = await blameAndUndo(machine, entryName, copies);
  for (const { copy } of copies.copies ?? []) machine.free(copy);
  return where;
}

/** @param {RangeCheck} check */
function outside({ what, at, low, high, ignore }) {
  const also = ignore === undefined ? '' : ` (or ${ignore})`;
  return `${what} outside ${low} to ${high}${also}, at ${at}`;
}

/**
 * Runs an entry kernel by kernel, with the current inputs, and so changes the model.
 * @param {Machine} machine @param {string} entryName
 */
async function blame(machine, entryName) {
  const { kernels } = machine.plan;
  await clearTemporaries(machine);
  const before = await badBefore(machine, entryName);
  if (before) return `; \`${before}\` was not finite before the step`;
  const commands = machine.eachOf(entryName);
  const dispatches = machine.dispatches(entryName);
  for (const [i, rounds] of runOrder(machine.plan.entries[entryName])) {
    const dispatch = dispatches[i];
    await machine.finish(encoder => machine.record(encoder, [commands[i]]));
    const { access } = kernels[dispatch.kernel];
    const written = dispatch.bindings.filter((_, j) => access[j] === 'read_write');
    for (const binding of written) {
      const offset = await firstBad(machine, entryName, binding);
      if (offset === undefined) continue;
      const where = describe(machine, entryName, dispatch, binding.buffer, offset);
      return `; it first appears in ${where}${inRound(rounds)}`;
    }
  }
  return '';
}

/** In which round of the loops around it, innermost first. @param {Rounds} rounds */
function inRound(rounds) {
  const texts = rounds.map(({ done, rounds: count }) => `round ${done} of ${count}`);
  return texts.length ? `, in ${texts.reverse().join(' in ')}` : '';
}

/**
 * Otherwise values that the failed step left would be blamed on the first kernel.
 * @param {Machine} machine
 */
async function clearTemporaries(machine) {
  await machine.finish(encoder => {
    machine.plan.buffers.forEach(({ role }, i) => {
      if (TEMPORARY_ROLES.includes(role)) encoder.clearBuffer(machine.buffers[i]);
    });
  });
}

/** What the entry reads that is already bad. @param {Machine} machine @param {string} entryName */
async function badBefore(machine, entryName) {
  const { tensors, entries } = machine.plan;
  const persistent = Object.keys(tensors).filter(id => isPersistent(tensors[id]));
  const read = [...persistent, ...Object.values(entries[entryName].inputs)];
  const finite = read.filter(id => isFloat(tensors[id]) && !tensors[id].any_float);
  for (const id of finite) {
    const { buffer, offset } = tensors[id];
    const words = await machine.read(buffer, offset, bytesOf(tensors[id]));
    if (words.some(word => (~word & EXPONENT) === 0)) return id;
  }
}

/**
 * The offset in its buffer of the first bad word that is not of a tensor of integers.
 * @param {Machine} machine @param {string} entryName @param {Binding} binding
 */
async function firstBad(machine, entryName, { buffer, offset, size }) {
  const words = await machine.read(buffer, offset, size);
  const integers = ownTensors(machine, entryName, buffer).filter(([, tensor]) => !isFloat(tensor));
  // Infinities, and the NaNs that arithmetic gives. Other NaN patterns are left out on purpose:
  // small negative integers look like them, and the plan does not say which temporaries hold
  // floats.
  const index = words.findIndex(
    (word, i) =>
      (word & ~SIGN_AND_QUIET) === EXPONENT &&
      !integers.some(([, tensor]) => holds(tensor, offset + WORD_BYTES * i)),
  );
  return index < 0 ? undefined : offset + WORD_BYTES * index;
}

/**
 * @param {Machine} machine @param {string} entryName @param {Dispatch} dispatch
 * @param {number} buffer @param {number} offset
 */
function describe(machine, entryName, { kernel, label, at }, buffer, offset) {
  const own = ownTensors(machine, entryName, buffer);
  const [id] = own.find(([, tensor]) => holds(tensor, offset)) ?? [label];
  return `\`${id}\` (kernel ${machine.plan.kernels[kernel].name}, ${at})`;
}

/**
 * The tensors of a buffer, by name. Outputs of other entries may share this memory; they are not
 * meant here.
 * @param {Machine} machine @param {string} entryName @param {number} buffer
 */
function ownTensors({ plan: { tensors, entries } }, entryName, buffer) {
  const outputs = Object.values(entries[entryName].outputs);
  return Object.entries(tensors).filter(
    ([name, tensor]) =>
      (isPersistent(tensor) || outputs.includes(name)) && tensor.buffer === buffer,
  );
}

/** @param {Tensor} tensor @param {number} offset */
function holds(tensor, offset) {
  return offset >= tensor.offset && offset < tensor.offset + bytesOf(tensor);
}
