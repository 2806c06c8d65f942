// Whether there are enough rows, and numbers for the inputs that are no rows. Mirrors rows_left.py.

import { counted } from './problems.js';

/** @import { EntryForm } from './form.js' */
/** @import { Source } from './source.js' */
/** @typedef {{reason: string, count: number, first: number}} Dropped rows, and the first line */

/**
 * @param {Source} source @param {EntryForm} entry @param {number} rows @param {Dropped[]} [dropped]
 * @param {boolean} [mayRepeat] whether `fit` repeats rows where there are fewer than a batch
 */
export function checkRows(source, entry, rows, dropped = [], mayRepeat = true) {
  if (!rows) {
    const reasons = dropped.map(
      ({ count, reason }) => `${counted(count, 'has', 'have')} ${reason}`,
    );
    if (!reasons.length) source.refuse('no-rows');
    source.refuse('no-row-left', { reasons });
  }
  if (rows >= entry.batch || entry.anyRows) return;
  if (entry.training && mayRepeat) {
    source.note('rows-repeated', { count: rows, batch: entry.batch });
    return;
  }
  const remedy = entry.dim ? { dim: entry.dim } : { fixed: true };
  source.refuse('few-rows', { count: rows, batch: entry.batch, ...remedy });
}

/**
 * Arrays for the inputs that a table has no columns for.
 * @param {EntryForm} entry @param {Record<string, any>} values @param {Source} source
 * @returns {Record<string, any>}
 */
export function otherInputs(entry, values, source) {
  for (const name of Object.keys(values))
    if (!Object.hasOwn(entry.inputs, name))
      source.refuse('no-input', { entry: entry.name, input: name });
  /** @type {Record<string, any>} */
  const found = {};
  for (const [name, port] of Object.entries(entry.inputs)) {
    if (Object.hasOwn(values, name)) {
      const list = [values[name]].flat(Infinity);
      found[name] = Object.assign(port.isFloat ? Float32Array.from(list) : Int32Array.from(list), {
        shape: port.shape,
      });
    } else if (!entry.rows.includes(name)) {
      const what = port.shape.length ? `${port}` : 'a single number';
      source.refuse('no-value', { input: name, type: what });
    }
  }
  return found;
}
