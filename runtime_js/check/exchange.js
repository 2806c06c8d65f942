// Checks of what machines that train one model together exchange.

import { isFloat, wordCount } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { refuse } from './schema.js';

/** @import { Entry, Exchange, Plan } from '../core/plan.js' */

/** @param {Plan} plan @param {string} name of the entry */
export function checkExchange(plan, name) {
  const entry = plan.entries[name];
  const { exchange } = entry;
  const field = `entries.${name}.exchange`;
  if (!exchange || (exchange.why && !exchange.gradients?.length)) return;
  if (exchange.why || !entry.training) refuse(`${field}.gradients`, exchange.why);
  checkCut(entry, exchange.dispatch ?? 0, `${field}.dispatch`);
  checkGradients(plan, exchange, `${field}.gradients`);
  exchange.outputs?.forEach((port, i) => {
    const tensor = plan.tensors[ownOf(entry.outputs, port) ?? ''];
    if (!tensor || !isFloat(tensor) || wordCount(tensor) !== 1)
      refuse(`${field}.outputs[${i}]`, port);
  });
  exchange.state?.forEach((id, i) => {
    const tensor = plan.tensors[id];
    const isState = entry.writes.includes(id) && tensor.role === 'state' && isFloat(tensor);
    if (!isState) refuse(`${field}.state[${i}]`, id);
  });
}

/**
 * Between two dispatches, outside of loops.
 * @param {Entry} entry @param {number} at @param {string} field
 */
function checkCut({ dispatches, repeats = [] }, at, field) {
  const isInside = repeats.some(({ first, count }) => first < at && at < first + count);
  if (at <= 0 || at >= dispatches.length || isInside) refuse(field, at);
}

/**
 * Parts of buffers for gradients, in order and disjoint.
 * @param {Plan} plan @param {Exchange} exchange @param {string} field
 */
function checkGradients({ buffers }, { gradients = [] }, field) {
  if (!gradients.length) refuse(field, gradients);
  gradients.forEach(({ buffer, offset, size }, i) => {
    const place = `${field}[${i}]`;
    if (buffers[buffer]?.role !== 'grads') refuse(`${place}.buffer`, buffer);
    const before = gradients[i - 1] ?? { buffer: -1, offset: 0, size: 0 };
    const isBehind =
      buffer > before.buffer || (buffer === before.buffer && offset >= before.offset + before.size);
    if (offset + size > buffers[buffer].bytes || !isBehind) refuse(place, offset);
  });
}
