// Sources of training data: arrays (shuffled by seed), an iterable, a function of the step. Each
// source returns batches as words, and can start at any position.

import { listOf } from '../core/arrays.js';
import { batchOf, DATA, visitInputs, withoutUnusual } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { convertInSlices } from '../core/long_arrays.js';
import { loadCheck } from '../core/parts.js';
import { elementBytes, elementCount, WORD_BYTES } from '../core/plan.js';
import { mapRecord, ownOf } from '../core/records.js';
import { takeWords } from '../core/spare_words.js';
import { shuffled } from './shuffle.js';

/** @import { NamedWords, Words } from '../core/arrays.js' */
/** @import { Plan, Range, Tensor } from '../core/plan.js' */
/** @import { Progress } from '../core/session.js' */
/**
 * @typedef {NamedWords | undefined} NextBatch nothing at the end of the data
 * @typedef {object} Source
 * @property {() => NextBatch | Promise<NextBatch>} take the next batch
 * @property {() => Promise<unknown>} close for an iterable: ends it, as leaving a loop does
 * @typedef {{list: ArrayLike<any>, rowBytes: number, rows: number, size?: number}} Column one input
 *   of a whole data set: its rows, and how many of them the model takes at a time
 * @typedef {{hasEnd: boolean, epochs?: number, first: number}} Length of a training: whether its
 *   steps or epochs are given, and the step that its epochs are counted from
 */

/**
 * The source of batches for what a caller passed to `fit`. Arrays and functions continue at the
 * entry's own step; an iterable starts over, without the batches that a resumed run has taken.
 * @param {Plan} plan @param {string} entryName @param {any} data @param {Progress} progress
 * @param {Length} length @returns {Promise<Source>}
 */
export async function openSource(plan, entryName, data, progress, length) {
  if (data?.[DATA])
    return openSource(plan, entryName, repeated(plan, entryName, data), progress, length);
  const step = ownOf(progress.steps, entryName) ?? 0;
  const isFunction = typeof data === 'function';
  if (!isFunction && !data?.[Symbol.iterator] && !data?.[Symbol.asyncIterator])
    return openArrays(plan, entryName, data, progress.seed, step, length);
  const batches = isFunction ? calls(data, step) : startedOver(data, progress.position, length);
  const take = async () => {
    const { value } = await batches.next();
    if (!value) return;
    const plain = await withoutUnusual(plan, entryName, value);
    return (
      batchOf(plan, entryName, plain) ?? (await loadCheck()).refuseInputs(plan, entryName, plain)
    );
  };
  return { take, close: () => batches.return() };
}

/**
 * The arrays of data that was read, with all rows as often as a batch needs them. Arrays of files
 * are as given.
 * @param {Plan} plan @param {string} entryName @param {any} data
 */
function repeated(plan, entryName, { arrays, preparation, rows, withRows = [] }) {
  const { inputs } = plan.entries[entryName];
  const batch = plan.tensors[inputs[withRows[0]]]?.shape[0] ?? 0;
  if (!preparation || !(rows < batch)) return arrays;
  const times = Math.ceil(batch / rows);
  return mapRecord(arrays, (array, name) => {
    if (!withRows.includes(name)) return array;
    const longer = new array.constructor(times * array.length);
    for (let i = 0; i < times; i++) longer.set(array, i * array.length);
    return Object.assign(longer, { shape: [times * rows, ...array.shape.slice(1)] });
  });
}

/** What a function of the step gives. @param {(step: number) => any} data @param {number} step */
async function* calls(data, step) {
  for (let next = step; ; next++) yield data(next);
}

/**
 * The batches of an iterable, which starts over at its end if it can.
 * @param {any} data @param {number} position batches that were taken before training stopped
 * @param {Length} length
 */
async function* startedOver(data, position, { hasEnd, epochs = Infinity }) {
  let skip = position;
  let before;
  let passes = 0;
  do {
    before = skip;
    for await (const batch of data) if (skip-- < 1) yield batch;
  } while (hasEnd && ++passes < epochs && skip < before && !data.next);
  if (skip > 0) fail('data', '', 'ended before the batch where training continues');
}

/**
 * Whole data sets: rows of the first axis, in an order that seed and epoch determine. Rows after the
 * last full batch of an epoch are left out; the next epoch has another order.
 * @param {Plan} plan @param {string} entryName @param {any} given
 * @param {number} seed @param {number} position @param {Length} length
 * @returns {Promise<Source>}
 */
async function openArrays(plan, entryName, given, seed, position, length) {
  const data = await withoutUnusual(plan, entryName, given);
  const columns = visitInputs(plan, entryName, data, columnOf);
  const [batch, count] = rowCounts(Object.values(columns ?? {}));
  const isSound = length.hasEnd && columns && isConsistent(Object.values(columns), batch, count);
  const words = isSound ? await wordsOf(plan, entryName, columns) : undefined;
  if (!columns || !words)
    return (await loadCheck()).refuseRows(plan, entryName, data, length.hasEnd);
  const pick = batchPicker(columns, words, batch);
  return arraySource(pick, batch, count, seed, position, length);
}

/**
 * @param {any} value @param {Tensor} tensor
 * @returns {Column | undefined}
 */
function columnOf(value, tensor) {
  const list = listOf(value, tensor);
  if (!list) return;
  const [size, ...row] = tensor.shape;
  const rows = list.length / elementCount(row);
  const rowBytes = elementBytes(tensor.dtype) * elementCount(row);
  const isWhole = size === undefined ? rows === 1 : Number.isInteger(rows);
  if (isWhole) return { list, rowBytes, rows, size };
}

/**
 * All numbers of a data set; undefined if one is not allowed.
 * @param {Plan} plan @param {string} entryName @param {Record<string, Column>} columns
 */
async function wordsOf({ entries, tensors }, entryName, columns) {
  const { inputs, ranges } = entries[entryName];
  /** @type {NamedWords} */
  const found = {};
  for (const [port, { list }] of Object.entries(columns)) {
    const words = await convertInSlices(list, tensors[inputs[port]], ownOf(ranges, port));
    if (!words) return;
    found[port] = words;
  }
  return found;
}

/**
 * The rows of a batch and of all data: those of an input with more rows than a batch. If there is
 * none, the data is one batch.
 * @param {Column[]} columns @returns {[number, number]}
 */
function rowCounts(columns) {
  const longer = columns.findLast(({ rows, size }) => size !== undefined && rows !== size);
  return longer?.size === undefined ? [0, 1] : [longer.size, longer.rows];
}

/**
 * One batch of labels with a thousand rows of inputs is a mistake, not a constant.
 * @param {Column[]} columns @param {number} batch @param {number} count
 */
function isConsistent(columns, batch, count) {
  return (
    count >= batch &&
    columns.every(({ rows, size }) => rows === (size === batch ? count : (size ?? 1)))
  );
}

/**
 * The batch of some rows.
 * @param {Record<string, Column>} columns @param {NamedWords} words @param {number} batch
 * @returns {(rows: Uint32Array) => NamedWords}
 */
function batchPicker(columns, words, batch) {
  return rows =>
    mapRecord(columns, ({ rowBytes, size }, port) =>
      size === batch ? rowsAt(words[port], rowBytes, rows) : words[port],
    );
}

/**
 * @param {(rows: Uint32Array) => NamedWords} pick @param {number} batch @param {number} count
 * @param {number} seed @param {number} position @param {Length} length @returns {Source}
 */
function arraySource(pick, batch, count, seed, position, { epochs = Infinity, first }) {
  const perEpoch = batch ? Math.floor(count / batch) : 1;
  const end = first + epochs * perEpoch;
  let next = position;
  let orderedEpoch = -1;
  let order = new Uint32Array();
  const take = async () => {
    if (next >= end) return;
    const epoch = Math.floor(next / perEpoch);
    const start = (next % perEpoch) * batch;
    next++;
    if (epoch !== orderedEpoch) {
      order = await shuffled(seed, count, epoch);
      orderedEpoch = epoch;
    }
    return pick(order.subarray(start, start + batch));
  };
  return { take, close: async () => {} };
}

/** @param {Words} words @param {number} rowBytes @param {Uint32Array} rows */
function rowsAt(words, rowBytes, rows) {
  const bytes = new Uint8Array(words.buffer);
  const found = takeWords(Math.ceil((rows.length * rowBytes) / WORD_BYTES));
  found[found.length - 1] = 0;
  const chosen = new Uint8Array(found.buffer);
  rows.forEach((row, i) => {
    chosen.set(bytes.subarray(row * rowBytes, (row + 1) * rowBytes), i * rowBytes);
  });
  return found;
}
