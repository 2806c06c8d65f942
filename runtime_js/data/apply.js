// Uses a model's preparation: raw numbers are scaled before a call as they were for training, and
// predictions are scaled back. Mirrors preparation.py.

import { listOf } from '../core/arrays.js';
import { withoutUnusual } from '../core/batches.js';
import { elementCount, isFloat } from '../core/plan.js';
import { mapRecord, ownOf } from '../core/records.js';

/** @import { Values } from '../core/arrays.js' */
/** @import { Session } from '../core/session.js' */
/** @import { Plan, Tensor } from '../core/plan.js' */
/** @typedef {{mean: number[], deviation: number[]}} Scaling one number per column */

/**
 * A call of an entry with numbers as the data has them. Training entries take prepared ones.
 * @param {Session} session @param {string} entryName @param {any} inputs
 */
export async function callRaw(session, entryName, inputs) {
  const { plan, preparation } = session;
  const entry = ownOf(plan.entries, entryName);
  if (!entry || entry.training) return session.call(entryName, inputs);
  const plain = await withoutUnusual(plan, entryName, inputs);
  const prepared = mapRecord(Object(plain), (value, name) => {
    const scaling = scalingOf(preparation, name);
    const tensor = plan.tensors[ownOf(entry.inputs, name) ?? ''];
    // What does not fit is reported by the check that follows.
    const isFitting = scaling && tensor && isWidth(tensor, scaling.mean.length);
    const list = isFitting && listOf(value, tensor);
    return list ? scaledList(list, scaling, value.shape) : value;
  });
  const outputs = await session.call(entryName, prepared);
  const scaling = scalingOf(preparation, preparation.target);
  const predicted = scaling && predictedOutput(plan, entryName, preparation.target);
  if (predicted) unscale(outputs[predicted], scaling);
  return outputs;
}

/** Whether a row of a tensor has so many numbers. @param {Tensor} tensor @param {number} count */
function isWidth({ shape }, count) {
  return shape.length > 0 && elementCount(shape.slice(1)) === count;
}

/** @param {any} preparation @param {string} name of an input @returns {Scaling | undefined} */
function scalingOf(preparation, name) {
  const input = ownOf(preparation.inputs, name);
  return input?.mean?.length ? input : undefined;
}

/**
 * Computed in double precision, and rounded once.
 * @param {ArrayLike<number>} list rows @param {Scaling} scaling @param {number[]} [shape]
 */
function scaledList(list, { mean, deviation }, shape) {
  const scaled = Float32Array.from(list, (value, i) => {
    const column = i % mean.length;
    return (value - mean[column]) / (deviation[column] || 1);
  });
  return shape ? Object.assign(scaled, { shape }) : scaled;
}

/** @param {Values} list is changed @param {Scaling} scaling */
function unscale(list, { mean, deviation }) {
  list.forEach((value, i) => {
    const column = i % mean.length;
    list[i] = value * (deviation[column] || 1) + mean[column];
  });
}

/**
 * The output that stands for the target: the only one of floats with rows like the target's.
 * @param {Plan} plan @param {string} entryName @param {string} target
 */
function predictedOutput({ entries, tensors }, entryName, target) {
  const trainer = Object.values(entries).find(
    ({ training, inputs }) => training && Object.hasOwn(inputs, target),
  );
  if (!trainer) return undefined;
  const row = `${tensors[trainer.inputs[target]].shape.slice(1)}`;
  const found = Object.entries(entries[entryName].outputs).filter(([, id]) => {
    const { shape } = tensors[id];
    return isFloat(tensors[id]) && shape.length && `${shape.slice(1)}` === row;
  });
  return found.length === 1 ? found[0][0] : undefined;
}
