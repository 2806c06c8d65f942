// Rows of numbers that people paste: read as a table is, by the rules of wgcc/DATA.md for encodings,
// delimiters, decimal commas and headers.

import { readAmounts } from './amounts.js';
import { isMissing, numberParser } from './cells.js';
import { makeTable } from './columns.js';
import { decode } from './decode.js';
import { makeFeatures } from './features.js';
import { readRecords } from './records.js';
import { Source, shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { FeatureSource } from './features.js' */

/**
 * Rows for columns of these names: found by a header that has all of them, else by their order.
 * @param {string} text @param {FeatureSource[]} sources @param {string} [decimal] how numbers are
 *   written
 * @returns {Promise<{cells: (string | number)[], numbers: number[]}[]>} as the text has them, and as
 *   the model takes them
 */
export async function readPasted(text, sources, decimal) {
  const names = sources.map(({ column }) => column);
  const source = new Source('The text');
  const chunks = await decode(new TextEncoder().encode(text), source);
  const records = await readRecords(chunks, source);
  const parse = await numberParser(records, decimal, source);
  const table = await makeTable(records, parse, source, new Set(names));
  await readAmounts(table, parse);
  const columns = columnsFor(table, names);
  const features = await makeFeatures(table, columns, sources);
  return table.lines.map((line, row) => ({
    cells: columns.map(({ kind, cells, values }) =>
      kind === 'numbers' ? values[row] : cells[row],
    ),
    numbers: features.map(feature => numberAt(feature, table, row, line)),
  }));
}

/** @param {Table} table @param {string[]} names */
function columnsFor({ columns, lines, source }, names) {
  const named = names.map(name => columns.find(column => column.name === name));
  if (named.every(column => column)) return /** @type {Column[]} */ (named);
  const used = columns.filter(({ kind }) => kind !== 'index');
  if (used.length !== names.length)
    source.refuse('needed-columns', { count: used.length, needed: names.length }, lines[0]);
  return used;
}

/** @param {Column} feature @param {Table} table @param {number} row @param {number} line */
function numberAt({ cells, values, number }, { columns, source }, row, line) {
  if (!Number.isNaN(values[row])) return values[row];
  const { name: column, cells: raw } = columns[number - 1];
  if (!isMissing(raw[row]) && isMissing(cells[row]))
    source.refuse('no-name', { column, cell: shown(raw[row]) }, line, number);
  if (isMissing(cells[row])) source.refuse('missing-number', {}, line, number);
  return source.refuse('no-number', { cell: shown(cells[row]) }, line, number);
}
