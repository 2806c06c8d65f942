// The loss on rows that the model does not train on: by an entry that computes it, as `eval` does in
// most models. Without one, by a training step that is undone: its loss is that of the weights before
// it.

import { elementCount } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { plan } from './bundle.js';
import { inputOf, inputsOf, rowCount } from './ports.js';
import { others, page, trainer } from './state.js';

/** @import { Arrays } from './state.js' */

/** Rows that are measured at most; more take long. */
const MOST_MEASURED = 2000;
/** Batches for which a step is undone, and bytes of values that this may copy each time. */
const MOST_UNDONE = 4;
const MOST_COPIED = 2 ** 25;
const TOO_LARGE =
  'This model has no entry that computes the loss without training, such as `eval`.';

/** The outputs that are one number. @param {string} entry */
export const scalarsOf = entry =>
  Object.entries(entry ? plan.entries[entry].outputs : {})
    .filter(([, id]) => !plan.tensors[id].shape.length)
    .map(([key]) => key);
const scalars = scalarsOf(trainer);
/** The output that is the loss. */
export const lossKey = scalars.includes('loss') ? 'loss' : scalars[0];

/** Whether an entry computes the loss of the entry that trains, from the same inputs. @param {string} entry */
function measuresLoss(entry) {
  const inputs = inputsOf(entry);
  const isSame = inputs.every(
    ({ key, row }) =>
      ownOf(plan.entries[trainer].inputs, key) && `${row}` === `${inputOf(trainer, key).row}`,
  );
  const isPure = !plan.entries[entry].writes.length;
  return isPure && inputs.length > 0 && isSame && scalarsOf(entry).includes(lossKey);
}
export const evaluator = trainer
  ? [...others].sort((a, b) => +(b === 'eval') - +(a === 'eval')).find(measuresLoss)
  : undefined;

/** Numbers by name. @param {Arrays} arrays @returns {Promise<Record<string, number>>} */
export function measureHeldOut(arrays) {
  const job = evaluator ? measureByEntry(evaluator, arrays) : measureByUndoneSteps(arrays);
  page.measured = job.then(
    () => {},
    () => {},
  );
  return job;
}

/** Why there is no second curve; empty if there is one. @param {Arrays | null | undefined} arrays */
export function whyNotMeasured(arrays) {
  if (!arrays) return '';
  if (!evaluator) return copiedBytes() > MOST_COPIED ? TOO_LARGE : '';
  const { rows } = plan.entries[evaluator];
  const isEnough = rows?.outputs || rowCount(evaluator, arrays) >= (rows?.count ?? 1);
  return isEnough ? '' : `\`${evaluator}\` measures ${rows?.count} rows; fewer are held out.`;
}

/**
 * Rows of arrays; the first ones follow the last.
 * @param {string} entry @param {Arrays} arrays @param {number} start @param {number} count
 */
function rowsFrom(entry, arrays, start, count) {
  const found = inputsOf(entry).map(({ key, size, hasRows }) => {
    const list = arrays[key];
    if (!hasRows) return [key, list];
    const end = (start + count) * size;
    if (end <= list.length) return [key, list.subarray(start * size, end)];
    const at = (/** @type {number} */ i) => list[(start * size + i) % list.length];
    const length = count * size;
    return [
      key,
      list.constructor.from({ length }, (/** @type {any} */ _, /** @type {number} */ i) => at(i)),
    ];
  });
  return Object.fromEntries(found);
}

/**
 * All rows at once, or, if the entry mixes rows, the mean over all whole batches.
 * @param {string} entry @param {Arrays} arrays
 */
function measureByEntry(entry, arrays) {
  const { rows } = plan.entries[entry];
  const most = Math.min(rowCount(entry, arrays), MOST_MEASURED);
  const count = rows && !rows.outputs ? rows.count : most;
  return meanOfBatches(Math.max(1, Math.floor(most / count)), i =>
    page.model.callPrepared(entry, rowsFrom(entry, arrays, i * count, count)),
  );
}

/** @param {Arrays} arrays */
async function measureByUndoneSteps(arrays) {
  const batch = plan.entries[trainer].rows?.count ?? 1;
  const times = Math.max(1, Math.min(MOST_UNDONE, Math.floor(rowCount(trainer, arrays) / batch)));
  await page.model.snapshot();
  return meanOfBatches(times, async i => {
    try {
      return await page.model.call(trainer, rowsFrom(trainer, arrays, i * batch, batch));
    } finally {
      await page.model.recover();
    }
  });
}

/** The mean of each output that is one number. @param {number} times @param {(i: number) => Promise<Arrays>} outputsOf */
async function meanOfBatches(times, outputsOf) {
  /** @type {Record<string, number>} */
  const sums = {};
  for (let i = 0; i < times; i++)
    for (const [key, list] of Object.entries(await outputsOf(i)))
      if (list.length === 1) sums[key] = (sums[key] ?? 0) + list[0] / times;
  return sums;
}

const copiedBytes = () =>
  Object.values(plan.tensors)
    .filter(({ role }) => role === 'param' || role === 'state')
    .reduce((sum, { shape }) => sum + 4 * elementCount(shape), 0);
