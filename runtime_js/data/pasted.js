// Rows of numbers that people paste: read as a table is, by the rules of wgcc/DATA.md for encodings,
// delimiters, decimal commas and headers.

import { isMissing, numberParser } from './cells.js';
import { makeTable } from './columns.js';
import { decode } from './decode.js';
import { readRecords } from './records.js';
import { Source, shown } from './source.js';

/** @import { Column, Table } from './columns.js' */

/**
 * Numbers for columns of these names: found by a header that has all of them, else by their order.
 * @param {string} text @param {string[]} names @param {string} [decimal] how numbers are written
 * @returns {Promise<number[][]>} rows
 */
export async function readPasted(text, names, decimal) {
  const source = new Source('The text');
  const chunks = await decode(new TextEncoder().encode(text), source);
  const records = await readRecords(chunks, source);
  const parse = await numberParser(records, decimal, source);
  const table = await makeTable(records, parse, source, new Set(names));
  const columns = columnsFor(table, names);
  return table.lines.map((line, row) => columns.map(column => numberAt(column, row, line, source)));
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

/** @param {Column} column @param {number} row @param {number} line @param {Source} source */
function numberAt({ cells, values, number }, row, line, source) {
  if (!Number.isNaN(values[row])) return values[row];
  if (isMissing(cells[row])) source.refuse('missing-number', {}, line, number);
  return source.refuse('no-number', { cell: shown(cells[row]) }, line, number);
}
