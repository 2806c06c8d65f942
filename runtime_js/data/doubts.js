// Notes on data that can be trained with, but that may not be what its owner means. Mirrors
// doubts.py.

import { forEachIndex, forEachItem } from './pause.js';
import { meanOf } from './scaling.js';
import { shown } from './source.js';

/** @import { Matching } from './matching.js' */
/** @import { Source } from './source.js' */

/** In smaller tables everything is rare, equal or far away. */
const LEAST_ROWS = 10;
/** A column that tells all of so many rows apart does so by more than chance. */
const MANY_ROWS = 20;
const FEW_ROWS = 5;
const MOST_SHARE = 0.9;
/** Numbers that people write for missing values: 9, 99, … 999999, also negative. */
const SENTINEL = /^-?9{1,6}$/;
/** Far from the others by this many of their spreads. */
const FAR = 2;

/**
 * Notes on what was read, input by input.
 * @param {Source} source @param {Matching} matching @param {Record<string, any>} specs by input
 * @param {Record<string, any>} arrays @param {Uint32Array} rows those of the table that are used
 */
export async function noteDoubts(source, { target, columns: matched }, specs, arrays, rows) {
  const spec = specs[target ?? ''] ?? {};
  const isClass = spec.kind === 'classes';
  const truth = isClass || isNumber(spec) ? arrays[target ?? ''] : undefined;
  if (isClass) await noteClasses(source, spec.columns[0], truth, spec.classes);
  for (const [name, columns] of matched) {
    if (name === target || specs[name].kind !== 'columns') continue;
    for (const { name: column, values } of columns) {
      const there = rows.filter(row => !Number.isNaN(values[row]));
      const own = Float64Array.from(there, row => values[row]);
      await noteColumn(source, column, own);
      if (!truth) continue;
      /** @type {Float64Array} */
      const answers = truth.filter(
        (/** @type {number} */ _, /** @type {number} */ i) => !Number.isNaN(values[rows[i]]),
      );
      await noteLeak(source, column, own, spec.columns[0], answers, isClass);
    }
  }
}

/** Whether one column of numbers is learned. @param {any} spec */
const isNumber = ({ kind, columns }) => kind === 'columns' && columns.length === 1;

/** Notes on classes that are alone, rare, or nearly all rows. @param {Source} source @param {string} column @param {Float64Array} ids @param {string[]} names */
async function noteClasses(source, column, ids, names) {
  const counts = names.map(() => 0);
  let total = 0;
  await forEachItem(ids, id => {
    if (!(id >= 0 && id < names.length)) return;
    counts[id]++;
    total++;
  });
  if (total < LEAST_ROWS || total !== ids.length) return;
  const most = Math.max(...counts);
  const cell = shown(names[counts.indexOf(most)]);
  if (most === total) {
    source.note('one-class', { column, cell });
    return;
  }
  const few = names.filter((_, i) => counts[i] > 0 && counts[i] < FEW_ROWS);
  const listed = few.map(name => `${name} (${counts[names.indexOf(name)]})`);
  if (few.length) source.note('few-of-class', { column, names: listed, least: FEW_ROWS });
  if (most >= MOST_SHARE * total)
    source.note('most-of-class', { column, cell, share: Math.floor((100 * most) / total) });
}

/** Notes on a column of numbers that are all equal, or of which one may say that none is known. @param {Source} source @param {string} column @param {Float64Array} values */
async function noteColumn(source, column, values) {
  if (values.length < LEAST_ROWS) return;
  const { low, high } = await rangeWithout(values, Number.NaN);
  if (low === high) {
    source.note('column-same', { column });
    return;
  }
  for (const extreme of [low, high]) {
    if (!SENTINEL.test(`${extreme}`)) continue;
    const others = await rangeWithout(values, extreme);
    const gap = Math.min(Math.abs(others.low - extreme), Math.abs(others.high - extreme));
    if (gap > FAR * (others.high - others.low))
      source.note('column-sentinel', { column, number: extreme, count: others.without });
  }
}

/** @param {Float64Array} values @param {number} excluded */
async function rangeWithout(values, excluded) {
  const range = { low: Infinity, high: -Infinity, without: 0 };
  await forEachItem(values, value => {
    if (value === excluded) range.without++;
    else {
      range.low = Math.min(range.low, value);
      range.high = Math.max(range.high, value);
    }
  });
  return range;
}

/**
 * A note on a column that alone says what shall be learned.
 * @param {Source} source @param {string} column @param {Float64Array} values @param {string} target
 * @param {Float64Array} truth @param {boolean} isClass
 */
async function noteLeak(source, column, values, target, truth, isClass) {
  if (values.length < MANY_ROWS) return;
  const tells = isClass ? tellsClasses(values, truth) : tellsNumbers(values, truth);
  if (await tells) source.note('column-tells', { column, target });
}

/** Whether no number of one class lies within the range of another. @param {Float64Array} values @param {Float64Array} ids */
async function tellsClasses(values, ids) {
  /** @type {Map<number, [number, number]>} */
  const byClass = new Map();
  await forEachIndex(values.length, i => {
    const [low, high] = byClass.get(ids[i]) ?? [Infinity, -Infinity];
    byClass.set(ids[i], [Math.min(low, values[i]), Math.max(high, values[i])]);
  });
  const ranges = [...byClass.values()].sort((a, b) => a[0] - b[0]);
  return ranges.length > 1 && ranges.every(([low], i) => i === 0 || ranges[i - 1][1] < low);
}

/** @param {Float64Array} values @param {Float64Array} truth */
async function tellsNumbers(values, truth) {
  const [x, y] = [await meanOf(values), await meanOf(truth)];
  let [xx, yy, xy] = [0, 0, 0];
  await forEachIndex(values.length, i => {
    xx += (values[i] - x) ** 2;
    yy += (truth[i] - y) ** 2;
    xy += (values[i] - x) * (truth[i] - y);
  });
  return xx * yy > 0 && xy * xy > 0.9999 * xx * yy;
}
