// Columns for a model that was trained already: those of its preparation, by their names. Mirrors
// prepared_columns.py.

import { firstName } from './columns.js';
import { makeFeatures } from './features.js';
import { Matching } from './matching.js';
import { shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { FeatureSource } from './features.js' */
/** @import { EntryForm } from './form.js' */

/**
 * The columns that the preparation names; in a table without header, by their order.
 * @param {Table} table @param {EntryForm} entry @param {any} preparation
 */
export async function findPrepared(table, entry, preparation) {
  const found = new Matching(entry.rows.find(name => name === preparation.target));
  for (const name of entry.rows) {
    const spec = preparation.inputs[name];
    if (!spec?.columns) table.source.refuse('no-table', { input: name });
    const sources = /** @type {FeatureSource[] | undefined} */ (spec.sources);
    const columns = columnsNamed(table, entry, sources?.map(one => one.column) ?? spec.columns);
    const plain = columns.filter((_, i) => !sources?.[i].names && !sources?.[i].date);
    if (spec.kind === 'columns') checkNumbers(table, name, plain);
    found.columns.set(name, sources ? await makeFeatures(table, columns, sources) : columns);
  }
  return found;
}

/** @param {Table} table @param {EntryForm} entry @param {string[]} names @returns {Column[]} */
function columnsNamed({ source, columns, hasHeader }, entry, names) {
  if (!hasHeader && entry.rows.length === 1 && columns.length === names.length) return columns;
  const there = columns.map(({ name }) => name);
  return names.map(
    name =>
      columns.find(column => column.name === name) ??
      source.refuse('no-trained-column', { column: name, columns: there }),
  );
}

/** @param {Table} table @param {string} input @param {Column[]} columns */
function checkNumbers({ source, lines }, input, columns) {
  const odd = columns.find(({ kind }) => kind === 'names');
  if (!odd) return;
  const row = firstName(odd);
  const values = { column: odd.name, cell: shown(odd.cells[row]), input };
  source.refuse('names', values, lines[row], odd.number);
}
