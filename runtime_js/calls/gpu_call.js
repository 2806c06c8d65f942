// Calls whose inputs are in buffers of the GPU, or whose outputs stay there: nothing of that is
// copied through the page's memory.

import { CALLER_TYPES, toWords } from '../core/arrays.js';
import { visitInputs } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { bytesOf, elementCount } from '../core/plan.js';
import { mapRecord } from '../core/records.js';
import { isGpuBuffer, plainInputs } from './plain.js';

/** @import { Session } from '../core/session.js' */
/** @import { Range, Tensor } from '../core/plan.js' */
/** @typedef {{buffer: GPUBuffer, shape: number[], dtype: string}} GpuOutput */

const COPY_SRC = 0x4;

/**
 * @param {Session} session @param {string} entryName @param {any} inputs
 * @param {{output?: 'gpu'}} [options] @returns {Promise<Record<string, any>>}
 */
export async function callWith(session, entryName, inputs, { output, ...unknown } = {}) {
  const check = await loadCheck();
  check.refuseOptions('call', unknown, ['output']);
  if (output !== undefined && output !== 'gpu')
    fail('name', 'output', `is 'gpu', or left out, not ${output}`);
  const plain = await plainInputs(session.plan, entryName, Object(inputs));
  if (!output && !Object.values(plain).some(isGpuBuffer)) return session.call(entryName, plain);
  if (!session.machine.gpu)
    fail(
      'no-webgpu',
      entryName,
      "runs as WebAssembly, without GPU buffers: load with { device: 'webgpu' }",
    );
  const { plan } = session;
  const batch = visitInputs(plan, entryName, plain, wordsOrBuffer);
  if (!batch) return check.refuseInputs(plan, entryName, withoutBuffers(session, entryName, plain));
  return session.locked(() => run(session, entryName, batch, output === 'gpu'));
}

/**
 * @param {any} value @param {Tensor} tensor
 * @param {Range | [number, number]} [allowed]
 */
function wordsOrBuffer(value, tensor, allowed) {
  if (!isGpuBuffer(value)) return toWords(value, tensor, allowed);
  if (value.size !== bytesOf(tensor))
    fail(
      'shape',
      'GPUBuffer',
      `has ${value.size} bytes; [${tensor.shape}] takes ${bytesOf(tensor)}`,
    );
  if (!(value.usage & COPY_SRC)) fail('gpu', 'GPUBuffer', 'needs the usage COPY_SRC');
  return value;
}

/** With zeros instead of them, to find what else is wrong. @param {Session} session @param {string} entryName @param {any} inputs */
function withoutBuffers({ plan }, entryName, inputs) {
  return mapRecord(inputs, (value, port) => {
    const tensor = plan.tensors[plan.entries[entryName]?.inputs[port]];
    if (!tensor || !isGpuBuffer(value)) return value;
    return new CALLER_TYPES[tensor.dtype](elementCount(tensor.shape));
  });
}

/**
 * @param {Session} session @param {string} entryName @param {Record<string, any>} batch
 * @param {boolean} stays whether outputs stay on the GPU
 */
async function run(session, entryName, batch, stays) {
  const { outputs, training } = session.plan.entries[entryName];
  const ports = stays ? [] : Object.keys(outputs);
  const [result] = await session.run(entryName, [batch], ports);
  const found = stays ? await copied(session, outputs) : result;
  if (training) session.progress.steps[entryName] = session.stepsOf(entryName) + 1;
  return found;
}

/**
 * Copies of outputs, which the next call will overwrite.
 * @param {Session} session @param {Record<string, string>} outputs
 * @returns {Promise<Record<string, GpuOutput>>}
 */
async function copied({ machine, plan }, outputs) {
  /** @type {Record<string, GpuOutput>} */
  let found = {};
  await machine.finish(encoder => {
    found = mapRecord(outputs, id => {
      const { buffer: source, offset, shape, dtype } = plan.tensors[id];
      const size = bytesOf(plan.tensors[id]);
      const buffer = machine.gpu.createBuffer({ size, usage: machine.buffers[source].usage });
      encoder.copyBufferToBuffer(machine.buffers[source], offset, buffer, 0, size);
      // Halves are stored as floats.
      return { buffer, shape, dtype: dtype === 'f16' ? 'f32' : dtype };
    });
  });
  return found;
}
