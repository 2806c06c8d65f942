// A training step in two halves: gradients, which others may average, and the update with them.
// Mirrors flight.py. Any other use of the model drops a half that has no second.

import { batchOf } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { Guard } from '../core/guard.js';
import { loadCheck } from '../core/parts.js';
import { WORD_BYTES } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { runOrder } from '../core/repeats.js';
import { Runner } from '../core/runner.js';

/** @import { Values } from '../core/arrays.js' */
/** @import { Machine } from '../core/machine.js' */
/** @import { Binding, Exchange, Plan } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */
/** @typedef {{entryName: string, guard: Guard, isApplied: boolean}} Half of a step */

/** The step of each session that is half done, or that can be undone. @type {WeakMap<Session, Half>} */
const halves = new WeakMap();

/**
 * All gradients of a batch as one array.
 * @param {Session} session @param {any} inputs @param {string} [entryName]
 * @returns {Promise<Float32Array>}
 */
export async function gradients(session, inputs, entryName = 'train') {
  const { plan } = session;
  const regions = exchangeOf(plan, entryName).gradients ?? [];
  const batch = batchOf(plan, entryName, inputs);
  if (!batch) return (await loadCheck()).refuseInputs(plan, entryName, inputs);
  return session.locked(async () => {
    const { machine } = session;
    await machine.compile([entryName]);
    const usual = await session.guardOf(entryName);
    const guard =
      usual && !usual.isChecked ? usual : await Guard.make(machine, entryName, !!usual, true);
    for (const [port, id] of Object.entries(plan.entries[entryName].inputs))
      machine.write(plan.tensors[id], batch[port]);
    halves.set(session, { entryName, guard, isApplied: false });
    session.dropHalf = () => drop(session);
    const [commands] = commandsOf(machine, entryName);
    await machine.finish(encoder => {
      guard.before(encoder);
      machine.record(encoder, commands);
    });
    const words = new Uint32Array(totalSize(regions) / WORD_BYTES);
    let at = 0;
    for (const { buffer, offset, size } of regions) {
      words.set(await machine.read(buffer, offset, size), at);
      at += size / WORD_BYTES;
    }
    return new Float32Array(words.buffer);
  });
}

/**
 * The rest of the step, with these gradients; its outputs.
 * @param {Session} session @param {Float32Array} given @returns {Promise<Record<string, Values>>}
 */
export function apply(session, given) {
  return session.locked(async () => {
    const half = halves.get(session);
    if (!half || half.isApplied) return fail('order', 'apply', 'needs gradients() directly before');
    const { entryName, guard } = half;
    const { machine, plan } = session;
    writeGradients(machine, exchangeOf(plan, entryName).gradients ?? [], given, entryName);
    const outcome = await updater(machine, half).run([{}]);
    halves.delete(session);
    session.dropHalf = undefined;
    if (outcome.isBad) {
      await guard.restore();
      const code = outcome.failedCheck ? 'range' : 'nan';
      const what = outcome.badOutput ?? outcome.failedCheck?.what ?? 'a parameter or state';
      const why = outcome.failedCheck ? 'is out of range' : 'is not finite';
      fail(code, entryName, `step ${session.stepsOf(entryName) + 1}: ${what} ${why}; undone`);
    }
    session.progress.steps[entryName] = session.stepsOf(entryName) + 1;
    if (plan.entries[entryName].captures) {
      session.captures.delete(entryName);
      session.captures.set(entryName, undefined);
    }
    halves.set(session, { ...half, isApplied: true });
    session.dropHalf = () => drop(session);
    return outcome.results[0];
  }, true);
}

/** Undoes the last `apply`. @param {Session} session */
export function undo(session) {
  return session.locked(async () => {
    const half = halves.get(session);
    if (!half?.isApplied) return fail('order', 'undo', 'needs apply() directly before');
    halves.delete(session);
    session.dropHalf = undefined;
    await half.guard.restore();
    session.progress.steps[half.entryName] -= 1;
  }, true);
}

/** Something else uses the model. @param {Session} session */
async function drop(session) {
  const half = halves.get(session);
  halves.delete(session);
  session.dropHalf = undefined;
  if (half && !half.isApplied) await half.guard.restore();
}

/** What the plan says of an entry's gradients. @param {Plan} plan @param {string} entryName */
function exchangeOf(plan, entryName) {
  const entry = ownOf(plan.entries, entryName);
  if (!entry?.training) return fail('name', entryName, 'is not an entry that trains');
  const { exchange } = entry;
  const why = exchange?.why ?? (exchange ? '' : 'it was built by an earlier wgcc');
  if (why) return fail('exchange', entryName, `has gradients that cannot be exchanged: ${why}`);
  return /** @type {Exchange} */ (exchange);
}

/**
 * What runs before the gradients are complete, and what after.
 * @param {Machine} machine @param {string} entryName @returns {[any[], any[]]}
 */
function commandsOf(machine, entryName) {
  /** @type {any[]} */
  const commands = machine.commands[entryName];
  // The twin has a function for each half.
  if (commands[0] === entryName) return [[`${entryName}/gradients`], [`${entryName}/update`]];
  const entry = machine.plan.entries[entryName];
  const cut = entry.exchange?.dispatch ?? 0;
  const count = Array.from(runOrder(entry)).filter(([number]) => number < cut).length;
  return [commands.slice(0, count), commands.slice(count)];
}

/** Runs the second half: no inputs, and the copies are made already. @param {Machine} machine @param {Half} half */
function updater(machine, { entryName, guard }) {
  const ports = Object.keys(machine.plan.entries[entryName].outputs);
  const later = Object.create(guard, { before: { value: () => {} } });
  const runner = new Runner(machine, entryName, ports, later);
  [, runner.commands] = commandsOf(machine, entryName);
  runner.inputs = {};
  runner.inputBytes = 0;
  return runner;
}

/**
 * @param {Machine} machine @param {Binding[]} regions @param {Float32Array} given
 * @param {string} entryName
 */
function writeGradients(machine, regions, given, entryName) {
  const count = totalSize(regions) / WORD_BYTES;
  if (!(given instanceof Float32Array) || given.length !== count)
    fail('shape', entryName, `has gradients of ${count} numbers, as a Float32Array`);
  const words = new Uint32Array(given.slice().buffer);
  let at = 0;
  for (const { buffer, offset, size } of regions) {
    const tensor = /** @type {any} */ ({ buffer, offset });
    machine.write(tensor, words.slice(at, at + size / WORD_BYTES));
    at += size / WORD_BYTES;
  }
}

/** In bytes. @param {Binding[]} regions */
function totalSize(regions) {
  return regions.reduce((total, { size }) => total + size, 0);
}
