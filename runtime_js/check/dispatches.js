// Checks of what an entry runs: its dispatches with their bindings, and its loops.

import { runCount } from '../core/repeats.js';
import { checkLimit } from './limits.js';
import { refuse } from './schema.js';

/** @import { Binding, Dispatch, Entry, Plan, Repeat } from '../core/plan.js' */

/** Of one call, all rounds counted. */
const MAX_RUN = 1_000_000;
/** WebGPU's unit for the size of uniform bindings. */
const UNIFORM_BYTES = 16;

/** @param {Plan} plan @param {Dispatch} dispatch @param {string} field */
export function checkDispatch(plan, { kernel, bindings }, field) {
  bindings.forEach((binding, i) => {
    const place = `${field}.bindings[${i}]`;
    const buffer = plan.buffers[binding.buffer] ?? refuse(`${place}.buffer`, binding.buffer);
    if (binding.offset + binding.size > buffer.bytes) refuse(place, binding);
    checkLimit(plan, `${place}.size`, 'maxStorageBufferBindingSize', binding.size);
  });
  checkKernelUse(plan, kernel, bindings, field);
}

/**
 * Whether a kernel may have these bindings.
 * @param {Plan} plan @param {number} index @param {Binding[]} bindings @param {string} field
 */
export function checkKernelUse(plan, index, bindings, field) {
  const { access } = plan.kernels[index] ?? refuse(`${field}.kernel`, index);
  if (access.length !== bindings.length) refuse(`${field}.bindings`, bindings);
  bindings.forEach((one, i) => {
    if (access[i] === 'uniform') checkUniform(plan, one, `${field}.bindings[${i}]`);
    bindings.slice(0, i).forEach((other, j) => {
      const isWritten = [access[i], access[j]].includes('read_write');
      // WebGPU forbids one buffer as read and read_write at once, even in disjoint ranges.
      const doConflict =
        one.buffer === other.buffer &&
        isWritten &&
        (access[i] !== access[j] || areOverlapping(one, other));
      if (doConflict) refuse(`${field}.bindings[${i}]`, one);
    });
  });
}

/**
 * Only buffers of counters can be bound as uniforms.
 * @param {Plan} plan @param {Binding} binding @param {string} field
 */
function checkUniform({ buffers }, binding, field) {
  const { role } = buffers[binding.buffer];
  if (role !== 'counter' || binding.size % UNIFORM_BYTES) refuse(field, binding);
}

/** @param {Binding} one @param {Binding} other of the same buffer */
function areOverlapping(one, other) {
  return one.offset < other.offset + other.size && other.offset < one.offset + one.size;
}

/**
 * Loops are inside the list of dispatches, nested or disjoint, outer before inner.
 * @param {Entry} entry @param {string} field
 */
export function checkRepeats(entry, field) {
  const { dispatches, repeats = [] } = entry;
  const endOf = (/** @type {Repeat} */ { first, count }) => first + count;
  /** @type {Repeat[]} */
  const around = [];
  repeats.forEach((loop, i) => {
    while (around.length && endOf(around[around.length - 1]) <= loop.first) around.pop();
    const end = around.length ? endOf(around[around.length - 1]) : dispatches.length;
    const isBefore = i > 0 && loop.first < repeats[i - 1].first;
    if (isBefore || endOf(loop) > end) refuse(`${field}[${i}]`, loop);
    around.push(loop);
  });
  if (runCount(entry) > MAX_RUN) refuse(field, `more than ${MAX_RUN} dispatches`);
}
