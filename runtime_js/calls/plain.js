// Nested arrays and pictures as lists of numbers with a shape.

import { CALLER_TYPES } from '../core/arrays.js';
import { isUnusual } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { loadData } from '../core/parts.js';
import { isPauseDue, nextTask } from '../core/pause.js';
import { elementCount, isFloat } from '../core/plan.js';
import { ownOf } from '../core/records.js';

/** @import { Plan, Tensor } from '../core/plan.js' */

/**
 * The inputs of a call, in which only GPU buffers are left as they are.
 * @param {Plan} plan @param {string} entryName @param {any} inputs @returns {Promise<any>}
 */
export async function plainInputs(plan, entryName, inputs) {
  const ports = ownOf(plan.entries, entryName)?.inputs;
  /** @type {Record<string, any>} */
  const plain = {};
  for (const [port, value] of Object.entries(inputs)) {
    const tensor = plan.tensors[ownOf(ports, port) ?? ''];
    const isPlain = !tensor || !isUnusual(value) || isGpuBuffer(value);
    plain[port] = isPlain ? value : await plainValue(value, tensor, `${entryName}.${port}`);
  }
  return plain;
}

/** Also one of another window, or of Node. @param {any} value */
export function isGpuBuffer(value) {
  return typeof value?.mapAsync === 'function' && typeof value.destroy === 'function';
}

/** @param {any} value @param {Tensor} tensor @param {string} field */
async function plainValue(value, tensor, field) {
  if (isNested(value)) return flattened(value, tensor, field);
  const pictures = Array.isArray(value) ? value : [value];
  const { isPictureSource, pictureRows } = await loadData();
  if (!pictures.every(isPictureSource))
    fail('dtype', field, `is not an array of ${tensor.dtype}, nor a picture`);
  return pictureRows(pictures, tensor, field);
}

/** Whether it is an array of arrays or typed arrays. @param {any} value */
function isNested(value) {
  return Array.isArray(value) && typeof value[0]?.map === 'function';
}

/** @param {any[]} rows @param {Tensor} tensor @param {string} field */
async function flattened(rows, tensor, field) {
  const shape = shapeOf(rows);
  const numbers = isFloat(tensor)
    ? new CALLER_TYPES.f32(elementCount(shape))
    : new Array(elementCount(shape));
  const size = numbers.length / rows.length;
  for (let row = 0; row < rows.length; row++) {
    if (isPauseDue()) await nextTask();
    if (fill(numbers, rows[row], row * size, shape, 1) !== (row + 1) * size)
      fail('shape', field, `has lists of different lengths: see [${row}], not [${shape.slice(1)}]`);
  }
  return Object.assign(numbers, { shape });
}

/** That of its first elements. @param {any} value @returns {number[]} */
function shapeOf(value) {
  return typeof value?.map === 'function' ? [value.length, ...shapeOf(value[0])] : [];
}

/**
 * Copies what is inside a list; returns where it ended, or NaN if the shape is another.
 * @param {any} numbers @param {any} value @param {number} start @param {number[]} shape
 * @param {number} axis @returns {number}
 */
function fill(numbers, value, start, shape, axis) {
  const isList = typeof value?.map === 'function';
  if (axis === shape.length) {
    numbers[start] = value;
    return isList ? Number.NaN : start + 1;
  }
  if (!isList || value.length !== shape[axis]) return Number.NaN;
  let at = start;
  for (let i = 0; i < value.length; i++) at = fill(numbers, value[i], at, shape, axis + 1);
  return at;
}
