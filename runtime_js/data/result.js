// What reading data gives: arrays for `fit`, and everything that people should know about them.
// Mirrors preparation.py.

import { DATA } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { elementCount } from '../core/plan.js';
import { mapRecord } from '../core/records.js';
import { randomWords } from '../core/threefry.js';
import { forEachIndex, pause } from './pause.js';
import { scaleAnew } from './scaling.js';

/** @import { Kind, Preview } from './columns.js' */
/** @import { Dropped } from './rows_left.js' */
/**
 * @typedef {object} DataFacts
 * @property {Record<string, any>} arrays by input
 * @property {any} preparation null where arrays are used as they are
 * @property {number} rows
 * @property {string[]} withRows the inputs with one row per example
 * @property {string[]} notes
 * @property {Dropped[]} [dropped]
 * @property {{name: string, kind: Kind, input: string | null}[]} [columns] of a table
 * @property {string[]} [needsScaling] columns that should be scaled but were not asked to be
 * @property {Preview | null} [preview]
 * @property {boolean} [ownScaling] whether the scaling was computed from these rows, so that a part
 *   of them needs its own
 */

/** The second key of the choice: the CRC-32 of `held out`. */
const HELD_OUT_KEY = 0x4abf023c;
const HIGH_BITS = 16;
/** Few enough to take a few milliseconds. */
const KEYS_AT_ONCE = 2 ** 13;

/** Made by `readData`; `fit` takes it and keeps its preparation with the model. */
export class Data {
  [DATA] = true;

  /** @param {DataFacts} facts */
  constructor(facts) {
    this.arrays = facts.arrays;
    this.preparation = facts.preparation;
    this.rows = facts.rows;
    this.withRows = facts.withRows;
    this.notes = facts.notes;
    this.dropped = facts.dropped ?? [];
    this.columns = facts.columns ?? [];
    this.needsScaling = facts.needsScaling ?? [];
    this.preview = facts.preview ?? null;
    this.ownScaling = facts.ownScaling ?? false;
  }

  /**
   * Rows to train with, and a share of them to judge with, chosen by `seed`. Scaling, if it was
   * asked for, is computed anew from the rows to train with.
   * @param {number} share @param {number} [seed] @returns {Promise<[Data, Data]>}
   */
  async split(share, seed = 0) {
    if (!(share > 0 && share < 1))
      fail('range', 'share', `a held-out share is between 0 and 1, not ${share}`);
    const count = Math.min(Math.max(1, Math.floor(share * this.rows + 0.5)), this.rows - 1);
    if (count < 1) fail('data', 'share', 'a single row cannot be split into two parts');
    const isHeldOut = await smallest(await keysOf(seed, this.rows), count);
    const parts = [await this.#where(isHeldOut, 0), await this.#where(isHeldOut, 1)];
    if (this.ownScaling) await scaleAlone(parts);
    return /** @type {[Data, Data]} */ (parts);
  }

  /** @param {Uint8Array} marks one for each row @param {number} mark of the rows that are kept */
  async #where(marks, mark) {
    /** @type {number[]} */
    const rows = [];
    await forEachIndex(this.rows, row => {
      if (marks[row] === mark) rows.push(row);
    });
    const arrays = mapRecord(this.arrays, (array, name) =>
      this.withRows.includes(name) ? emptyRows(array, this.rows, rows.length) : array,
    );
    for (const name of this.withRows) {
      const size = this.arrays[name].length / this.rows;
      await forEachIndex(rows.length, i => {
        const start = rows[i] * size;
        arrays[name].set(this.arrays[name].subarray(start, start + size), i * size);
      });
    }
    return new Data({ ...this, arrays, rows: rows.length });
  }
}

/** By the rows to train with alone: nothing of the others may be known. @param {Data[]} parts */
async function scaleAlone([train, held]) {
  const inputs = { ...train.preparation.inputs };
  for (const [name, spec] of Object.entries(inputs))
    if (spec.mean) inputs[name] = await scaleAnew(train.arrays[name], held.arrays[name], spec);
  train.preparation = held.preparation = { ...train.preparation, inputs };
}

/** @param {any} array @param {number} rows it has @param {number} count of rows */
function emptyRows(array, rows, count) {
  const [, ...row] = array.shape ?? [rows, array.length / rows];
  return Object.assign(new array.constructor(count * elementCount(row)), {
    shape: [count, ...row],
  });
}

/** A random word for each row. @param {number} seed @param {number} rows */
async function keysOf(seed, rows) {
  const keys = new Uint32Array(rows);
  for (let first = 0; first < rows; first += KEYS_AT_ONCE) {
    const count = Math.min(KEYS_AT_ONCE, rows - first);
    keys.set(randomWords(seed, HELD_OUT_KEY, count, 0, first), first);
    await pause();
  }
  return keys;
}

/**
 * Marks with 1 the `count` smallest words; of equal ones, the first. Sorting all would take long.
 * @param {Uint32Array} words @param {number} count
 */
async function smallest(words, count) {
  const sizes = new Uint32Array(2 ** HIGH_BITS);
  await forEachIndex(words.length, i => {
    sizes[words[i] >>> (32 - HIGH_BITS)]++;
  });
  let border = 0;
  let left = count;
  while (sizes[border] < left) left -= sizes[border++];
  const marks = new Uint8Array(words.length);
  /** @type {number[]} */
  const atBorder = [];
  await forEachIndex(words.length, i => {
    const high = words[i] >>> (32 - HIGH_BITS);
    if (high < border) marks[i] = 1;
    if (high === border) atBorder.push(i);
  });
  atBorder.sort((a, b) => words[a] - words[b] || a - b);
  for (const i of atBorder.slice(0, left)) marks[i] = 1;
  return marks;
}
