// Whether there are enough rows, and numbers for the inputs that are no rows. Mirrors rows_left.py.

import { counted } from './source.js';

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
      ({ count, reason }) => `${count} ${count === 1 ? 'has' : 'have'} ${reason}`,
    );
    const why = reasons.join(', ');
    source.refuse(why ? `no row is left: ${why}` : 'there are no rows');
  }
  if (rows >= entry.batch || entry.anyRows) return;
  const found = counted(rows, 'row', 'rows');
  if (entry.training && mayRepeat) {
    const fewer = `${found} ${rows === 1 ? 'is' : 'are'} fewer than the ${entry.batch} of a batch`;
    source.note(`${fewer}: rows are repeated.`);
    return;
  }
  const text = `${found}, but the model takes batches of ${entry.batch}`;
  const advice = entry.dim ? `rebuild with --set ${entry.dim}=${rows}` : 'change the model';
  source.refuse(`${text}: ${advice}`);
}

/**
 * Arrays for the inputs that a table has no columns for.
 * @param {EntryForm} entry @param {Record<string, any>} values @param {Source} source
 * @returns {Record<string, any>}
 */
export function otherInputs(entry, values, source) {
  for (const name of Object.keys(values))
    if (!Object.hasOwn(entry.inputs, name))
      source.refuse(`\`${entry.name}\` has no input \`${name}\``);
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
      const text = `a table has no column for \`${name}\`, ${what}: give --value ${name}=NUMBER`;
      source.refuse(text, undefined, undefined, 'values');
    }
  }
  return found;
}
