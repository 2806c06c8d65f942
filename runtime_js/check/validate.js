// Checks of a plan that a schema cannot express: indices, ranges, overlaps, aliases and totals.
// Mirrors validate.py. Runs before any GPU call, so that a bad bundle can neither crash a driver
// nor corrupt a tensor.

import ROLES from '../../runtime_py/wgcc_runtime/tables/plan_roles.json' with { type: 'json' };
import { rangeOf } from '../core/arrays.js';
import { bytesOf, elementCount, isFloat, isPersistent } from '../core/plan.js';
import { mapRecord, ownOf } from '../core/records.js';
import { capturedOutputs, checkCaptureNames, checkCaptures } from './captures.js';
import { checkDispatch, checkKernelUse, checkRepeats } from './dispatches.js';
import { checkExchange } from './exchange.js';
import { checkLimit } from './limits.js';
import { refuse } from './schema.js';

/** @import { Entry, EntryGuard, Plan, RangeGuard, Rows, Tensor, Twin } from '../core/plan.js' */

const MAX_DISPATCHES = 10_000;
export const LASTING_ROLES = ROLES.lasting;
/**
 * Roles of buffers that tensors may be stored in: looking for a NaN clears others. Inputs of one
 * element are stored among the state's.
 * @type {Record<string, string[]>}
 */
export const STORED_IN = ROLES.stored;
/** Buffer roles behind each figure of `memory`. @type {Record<string, string[]>} */
export const MEMORY_ROLES = ROLES.memory;

/** Throws a `WgccError` with code `plan` or `limit` for the first defect. @param {Plan} plan */
export function validate(plan) {
  checkBuffers(plan);
  checkPorts(plan);
  checkTensors(plan);
  checkKernels(plan);
  for (const name of Object.keys(plan.entries)) checkEntry(plan, name);
  const copies = plan.copies ?? [];
  const counts = [copies.length, ...Object.values(plan.entries).map(dispatchCount)];
  if (counts.reduce((sum, count) => sum + count, 0) > MAX_DISPATCHES)
    refuse('entries', `more than ${MAX_DISPATCHES} dispatches`);
  copies.forEach((dispatch, i) => {
    checkDispatch(plan, dispatch, `copies[${i}]`);
  });
  for (const name of Object.keys(plan.profiles ?? {})) checkProfile(plan, name);
  checkOptimizer(plan);
  for (const name of Object.keys(plan.selftest?.entries ?? {})) checkSelftest(plan, name);
  checkMemory(plan);
  if (plan.twin) checkTwin(plan, plan.twin);
}

/** @param {string} field @param {string[]} names */
function checkUnique(field, names) {
  const seen = new Set();
  names.forEach((name, i) => {
    if (seen.has(name)) refuse(`${field}[${i}]`, name);
    seen.add(name);
  });
}

/** @param {Plan} plan */
function checkBuffers(plan) {
  checkUnique(
    'buffers',
    plan.buffers.map(({ name }) => name),
  );
  plan.buffers.forEach(({ bytes }, i) => {
    checkLimit(plan, `buffers[${i}].bytes`, 'maxBufferSize', bytes);
  });
}

/** Inputs, outputs and guards name tensors. @param {Plan} plan */
function checkPorts(plan) {
  for (const [name, entry] of Object.entries(plan.entries)) {
    const { inputs, outputs, guard, range_guard } = entry;
    checkCaptureNames(plan, name);
    const flags = mapRecord({ guard, range_guard }, found => (found ? { flag: found.flag } : {}));
    for (const [kind, ports] of Object.entries({ inputs, outputs, ...flags }))
      for (const [port, id] of Object.entries(ports))
        if (!Object.hasOwn(plan.tensors, id)) refuse(`entries.${name}.${kind}.${port}`, id);
  }
}

/** @param {Plan} plan */
function checkTensors(plan) {
  const { buffers, tensors } = plan;
  for (const [name, tensor] of Object.entries(tensors)) {
    const buffer = buffers[tensor.buffer] ?? refuse(`tensors.${name}.buffer`, tensor.buffer);
    const roles = ownOf(STORED_IN, tensor.role) ?? [buffer.role];
    if (!roles.includes(buffer.role)) refuse(`tensors.${name}.buffer`, buffer.role);
    if (tensor.offset + bytesOf(tensor) > buffer.bytes) refuse(`tensors.${name}`, tensor);
    if (tensor.any_float && !(tensor.role === 'input' && isFloat(tensor)))
      refuse(`tensors.${name}.any_float`, tensor.any_float);
    checkCopy(plan, name);
  }
  checkDisjoint(plan, lastingNames(plan));
}

/** @param {Plan} plan */
function lastingNames({ tensors }) {
  return Object.keys(tensors).filter(name => LASTING_ROLES.includes(tensors[name].role));
}

/**
 * The tensor that `copy` names is not itself a copy, and has the same shape and bytes.
 * @param {Plan} plan @param {string} name
 */
function checkCopy({ tensors }, name) {
  const tensor = tensors[name];
  const { init } = tensor;
  if (init?.kind !== 'copy') return;
  const original = ownOf(tensors, init.of ?? '');
  const isCopyable = original && isPersistent(original) && original.init?.kind !== 'copy';
  const isAlike = isCopyable && `${original.shape}` === `${tensor.shape}`;
  if (!isAlike || bytesOf(original) !== bytesOf(tensor)) refuse(`tensors.${name}.init`, init);
}

/** These tensors each own their memory. @param {Plan} plan @param {string[]} names */
function checkDisjoint({ tensors }, names) {
  const ordered = [...new Set(names)].sort(
    (a, b) => tensors[a].buffer - tensors[b].buffer || tensors[a].offset - tensors[b].offset,
  );
  for (const [i, name] of ordered.entries()) {
    const before = tensors[ordered[i - 1]];
    const overlaps = before && doOverlap(before, tensors[name]);
    if (overlaps && !isSameConstant(before, tensors[name]))
      refuse(`tensors.${name}`, `overlaps ${ordered[i - 1]}`);
  }
}

/** @param {Tensor} before @param {Tensor} after which starts no earlier */
function doOverlap(before, after) {
  return before.buffer === after.buffer && before.offset + bytesOf(before) > after.offset;
}

/** Constants of equal content may share one place. @param {Tensor} one @param {Tensor} other */
function isSameConstant(one, other) {
  const areConstants = one.role === 'constant' && other.role === 'constant';
  return areConstants && one.offset === other.offset && bytesOf(one) === bytesOf(other);
}

/** @param {Plan} plan */
function checkKernels(plan) {
  checkUnique(
    'kernels',
    plan.kernels.map(({ name }) => name),
  );
  checkUnique(
    'kernels',
    plan.kernels.map(({ file }) => file),
  );
  plan.kernels.forEach(({ workgroup, access }, i) => {
    const field = `kernels[${i}].workgroup`;
    workgroup.forEach((size, axis) => {
      checkLimit(plan, field, `maxComputeWorkgroupSize${'XYZ'[axis]}`, size);
    });
    checkLimit(plan, field, 'maxComputeInvocationsPerWorkgroup', elementCount(workgroup));
    const uniforms = access.filter(how => how === 'uniform').length;
    const accessField = `kernels[${i}].access`;
    const storage = access.length - uniforms;
    checkLimit(plan, accessField, 'maxStorageBuffersPerShaderStage', storage);
    checkLimit(plan, accessField, 'maxUniformBuffersPerShaderStage', uniforms);
  });
}

/** @param {Plan} plan @param {string} name */
function checkEntry(plan, name) {
  const field = `entries.${name}`;
  const {
    inputs,
    outputs,
    writes,
    dispatches,
    guard,
    range_guard: rangeGuard,
    rows,
  } = plan.entries[name];
  checkRoles(plan, `${field}.inputs`, inputs, 'input');
  checkRoles(plan, `${field}.outputs`, outputs, 'output');
  checkPortPlaces(plan, name);
  writes.forEach((id, i) => {
    if (!isPersistentName(plan, id)) refuse(`${field}.writes[${i}]`, id);
  });
  checkRanges(plan, name);
  dispatches.forEach((dispatch, i) => {
    checkDispatch(plan, dispatch, `${field}.dispatches[${i}]`);
  });
  checkRepeats(plan.entries[name], `${field}.repeats`);
  if (guard) checkGuard(plan, guard, `${field}.guard`);
  if (rangeGuard) checkRangeGuard(plan, rangeGuard, writes, `${field}.range_guard`);
  if (rows) checkRows(plan, name, rows);
  checkExchange(plan, name);
  checkCaptures(plan, name);
}

/** @param {Plan} plan @param {string} name @param {Rows} rows */
function checkRows({ entries, tensors }, name, { count, inputs, outputs, why }) {
  const field = `entries.${name}.rows`;
  const entry = entries[name];
  inputs.forEach((port, i) => {
    const id = ownOf(entry.inputs, port);
    if (!id || tensors[id].shape[0] !== count) refuse(`${field}.inputs[${i}]`, port);
  });
  const forms = Object.entries(outputs ?? {});
  if (!forms.length) return;
  const names = Object.keys(entry.outputs).sort();
  const isOfRows = !why && !entry.writes.length && !entry.training;
  if (!isOfRows || `${Object.keys(outputs ?? {}).sort()}` !== `${names}`)
    refuse(`${field}.outputs`, names);
  for (const [port, form] of forms) {
    const tensor = tensors[entry.outputs[port]];
    const hasRows = tensor.shape.length > 0 && tensor.shape[0] % count === 0;
    if ((form === 'rows' && !hasRows) || (form === 'mean' && !isFloat(tensor)))
      refuse(`${field}.outputs.${port}`, form);
  }
}

/**
 * @param {Plan} plan @param {string} field @param {Record<string, string>} ports
 * @param {string} role
 */
function checkRoles({ tensors }, field, ports, role) {
  for (const [port, id] of Object.entries(ports))
    if (tensors[id].role !== role) refuse(`${field}.${port}`, id);
}

/**
 * Inputs and outputs share no memory; only an output may be a tensor that the entry writes.
 * @param {Plan} plan @param {string} name
 */
function checkPortPlaces(plan, name) {
  const { inputs, outputs, writes, guard, range_guard } = plan.entries[name];
  const lasting = lastingNames(plan);
  const written = new Set(writes);
  const flags = [guard, range_guard].flatMap(found => (found ? [found.flag] : []));
  const ports = [...Object.values(inputs), ...flags];
  checkDisjoint(plan, [...lasting, ...ports]);
  const others = lasting.filter(id => !written.has(id));
  const shown = capturedOutputs(plan, name);
  checkDisjoint(plan, [...others, ...ports, ...Object.values(outputs), ...shown]);
}

/** Ranges are those of integer inputs, and not empty. @param {Plan} plan @param {string} name */
function checkRanges(plan, name) {
  const { inputs, ranges = {} } = plan.entries[name];
  for (const [port, range] of Object.entries(ranges)) {
    const { low, high } = rangeOf(range);
    const isInteger = Object.hasOwn(inputs, port) && !isFloat(plan.tensors[inputs[port]]);
    if (!isInteger || low > high) refuse(`entries.${name}.ranges.${port}`, range);
  }
}

/** @param {Plan} plan @param {EntryGuard} guard @param {string} field */
function checkGuard(plan, guard, field) {
  checkFlag(plan, guard.flag, `${field}.flag`);
  guard.dispatches.forEach((dispatch, i) => {
    checkDispatch(plan, dispatch, `${field}.dispatches[${i}]`);
  });
}

/** @param {Plan} plan @param {RangeGuard} guard @param {string[]} writes @param {string} field */
function checkRangeGuard(plan, { flag, restored }, writes, field) {
  checkFlag(plan, flag, `${field}.flag`);
  restored.forEach((id, i) => {
    if (!writes.includes(id)) refuse(`${field}.restored[${i}]`, id);
  });
}

/** A flag is one word of output. @param {Plan} plan @param {string} id @param {string} field */
function checkFlag({ tensors }, id, field) {
  const { role, dtype, shape } = tensors[id];
  if (role !== 'output' || dtype !== 'u32' || elementCount(shape) !== 1) refuse(field, id);
}

/** @param {Entry} entry */
function dispatchCount({ dispatches, guard }) {
  return dispatches.length + (guard?.dispatches.length ?? 0);
}

/**
 * Other kernels for some dispatches, each replaced once.
 * @param {Plan} plan @param {string} profile
 */
function checkProfile(plan, profile) {
  for (const [name, replacements] of Object.entries(plan.profiles?.[profile] ?? {})) {
    const field = `profiles.${profile}.${name}`;
    if (!Object.hasOwn(plan.entries, name)) refuse(field, name);
    const replaced = new Set();
    replacements.forEach(({ dispatch, kernel }, i) => {
      const old = plan.entries[name].dispatches[dispatch];
      if (!old || replaced.has(dispatch)) refuse(`${field}[${i}].dispatch`, dispatch);
      replaced.add(dispatch);
      checkKernelUse(plan, kernel, old.bindings, `${field}[${i}]`);
    });
  }
}

/** @param {Plan} plan */
function checkOptimizer(plan) {
  for (const [name, { step, entry }] of Object.entries(plan.optimizer ?? {})) {
    const field = `optimizer.${name}`;
    if (!isPersistentName(plan, step)) refuse(`${field}.step`, step);
    entry.forEach((/** @type {string} */ trained, /** @type {number} */ i) => {
      if (!Object.hasOwn(plan.entries, trained)) refuse(`${field}.entry[${i}]`, trained);
    });
  }
}

/** Draws every input, and expects outputs of every step. @param {Plan} plan @param {string} name */
function checkSelftest(plan, name) {
  const field = `selftest.entries.${name}`;
  if (!Object.hasOwn(plan.entries, name)) refuse(field, name);
  const { inputs, outputs, steps, changes } = plan.selftest.entries[name];
  const wanted = Object.keys(plan.entries[name].inputs);
  if (`${Object.keys(inputs).sort()}` !== `${wanted.sort()}`) refuse(`${field}.inputs`, inputs);
  if (outputs.length !== steps) refuse(`${field}.outputs`, steps);
  for (const id of Object.keys(changes?.tensors ?? {}))
    if (!isPersistentName(plan, id)) refuse(`${field}.changes.tensors.${id}`, id);
  checkSelftestValues(plan, name, field);
}

/** @param {Plan} plan @param {string} name @param {string} field */
function checkSelftestValues(plan, name, field) {
  const { inputs, outputs } = plan.selftest.entries[name];
  for (const [port, { kind, low, high }] of Object.entries(inputs)) {
    const areWhole = Number.isInteger(low) && Number.isInteger(high);
    if (low > high || (kind === 'integers' && !areWhole)) refuse(`${field}.inputs.${port}`, kind);
  }
  for (const [i, found] of outputs.entries())
    for (const port of Object.keys(found))
      if (!Object.hasOwn(plan.entries[name].outputs, port))
        refuse(`${field}.outputs[${i}].${port}`, port);
}

/** @param {Plan} plan @param {string} id */
function isPersistentName({ tensors }, id) {
  return Object.hasOwn(tensors, id) && isPersistent(tensors[id]);
}

/** @param {Plan} plan */
function checkMemory({ memory, buffers, tensors, entries }) {
  const bytesIn = (/** @type {string[]} */ roles) =>
    buffers.reduce((sum, { role, bytes }) => sum + (roles.includes(role) ? bytes : 0), 0);
  const totals = { peak: Object.values(MEMORY_ROLES).flat(), ...MEMORY_ROLES };
  for (const [name, roles] of Object.entries(totals))
    if (Object.hasOwn(memory, name) && memory[name] !== bytesIn(roles))
      refuse(`memory.${name}`, memory[name]);
  // What guards copy: whole buffers.
  const copied = Object.values(entries).map(({ guard, writes }) => {
    const written = new Set(guard ? writes.map(id => tensors[id].buffer) : []);
    return [...written].reduce((sum, buffer) => sum + buffers[buffer].bytes, 0);
  });
  if (Object.hasOwn(memory, 'guard') && memory.guard !== Math.max(0, ...copied))
    refuse('memory.guard', memory.guard);
}

/**
 * Each buffer once, one after the other, before the scratch areas.
 * @param {Plan} plan @param {Twin} twin
 */
function checkTwin(plan, { buffers, bytes, checked = [] }) {
  for (const name of checked) if (!ownOf(plan.entries, name)?.guard) refuse('twin.checked', name);
  const sizes = new Map(plan.buffers.map(buffer => [buffer.name, buffer.bytes]));
  for (const name of sizes.keys())
    if (!Object.hasOwn(buffers, name)) refuse('twin.buffers', `no ${name}`);
  const names = Object.keys(buffers);
  for (const name of names) if (!sizes.has(name)) refuse(`twin.buffers.${name}`, buffers[name]);
  names.sort((a, b) => buffers[a] - buffers[b] || (a < b ? -1 : 1));
  names.forEach((name, i) => {
    const after = i + 1 < names.length ? buffers[names[i + 1]] : bytes;
    if (buffers[name] + (sizes.get(name) ?? 0) > after)
      refuse(`twin.buffers.${name}`, buffers[name]);
  });
}
