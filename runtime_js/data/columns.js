// Records as columns with names and kinds: header, numbers or names, empty and index columns.
// Mirrors columns.py.

import DATA_WORDS from '../../runtime_py/wgcc_runtime/tables/data_words.json' with { type: 'json' };
import { areNumbers, isMissing } from './cells.js';
import { forEachIndex, forEachItem } from './pause.js';

/** @import { Parse } from './cells.js' */
/** @import { Delimited } from './records.js' */
/** @import { Source } from './source.js' */
/**
 * @typedef {'numbers' | 'names' | 'empty' | 'index'} Kind
 * @typedef {object} Column
 * @property {string} name
 * @property {number} number counts from 1
 * @property {string[]} cells
 * @property {Kind} kind
 * @property {Float64Array} values its numbers; NaN where there is none
 * @property {string} [unit] of numbers that were read as amounts; it may be empty
 * @property {Set<string>} distinct cells of a column of names that are not missing
 * @typedef {object} Table
 * @property {Source} source
 * @property {Column[]} columns
 * @property {number[]} lines the line (or row) of each row
 * @property {boolean} hasHeader
 * @typedef {{columns: {name: string, kind: Kind, input?: string}[], rows: string[][],
 *   count: number}} Preview the first rows, how many there are, and what columns feed
 * @typedef {{cells: string[], values: Float64Array, present: number, numbers: number}} Parsed a
 *   column with its first record, which may be a header; the counts are without it
 */

const INDEX_NAMES = DATA_WORDS.index;
const PREVIEW_ROWS = 6;

/**
 * @param {Delimited} records @param {Parse} parse @param {Source} source
 * @param {Set<string>} asked names of columns that are no index
 * @param {boolean} [header] whether there is one, if that is known
 * @returns {Promise<Table>}
 */
export async function makeTable(records, parse, source, asked, header) {
  const parsed = [];
  for (const cells of records.columns) parsed.push(await parsedColumn(cells, parse));
  const hasHeader = header ?? findHeader(parsed);
  const names = hasHeader ? headerNames(records, source) : numberedNames(parsed, source);
  if (hasHeader && records.lines.length === 1) source.refuse('no-rows-below');
  /** @type {Column[]} */
  const columns = [];
  for (const [i, column] of parsed.entries())
    columns.push(await columnOf(names[i], i + 1, column, hasHeader));
  for (const { name, kind } of columns)
    if (kind === 'empty') source.note('column-empty', { column: name });
  const [first] = columns;
  const isCalledIndex = hasHeader && INDEX_NAMES.includes(parsed[0].cells[0].toLowerCase());
  if (isCalledIndex && !asked.has(first.name) && (await isIndex(first))) {
    first.kind = 'index';
    source.note('column-numbers-rows', { column: first.name });
  }
  const lines = hasHeader ? records.lines.slice(1) : records.lines;
  source.preview = previewOf(columns, lines.length);
  return { source, columns, lines, hasHeader };
}

/** @param {string[]} cells @param {Parse} parse @returns {Promise<Parsed>} */
async function parsedColumn(cells, parse) {
  const values = new Float64Array(cells.length);
  let present = 0;
  let numbers = 0;
  await forEachIndex(cells.length, i => {
    const value = isMissing(cells[i]) ? Number.NaN : parse(cells[i]);
    values[i] = value;
    if (i === 0 || isMissing(cells[i])) return;
    present++;
    if (!Number.isNaN(value)) numbers++;
  });
  return { cells, values, present, numbers };
}

/** @param {Parsed[]} columns */
function findHeader(columns) {
  const isText = columns.map(
    ({ cells, values }) => !isMissing(cells[0]) && Number.isNaN(values[0]),
  );
  if (columns.some((column, i) => isText[i] && areNumbers(column.numbers, column.present)))
    return true;
  const named = columns[0].cells[0] === '' ? columns.slice(1) : columns;
  const names = named.map(({ cells }) => cells[0]);
  const isRepeated = columns.some(({ cells }) => cells[0] && cells.includes(cells[0], 1));
  return (
    names.length > 0 &&
    isText.slice(-names.length).every(Boolean) &&
    new Set(names).size === names.length &&
    !isRepeated
  );
}

/** @param {Delimited} records @param {Source} source */
function headerNames({ columns, lines }, source) {
  const names = columns.map((cells, i) => cells[0] || `column ${i + 1}`);
  names.forEach((name, i) => {
    const first = names.indexOf(name);
    if (first < i)
      source.refuse('equal-names', { first: first + 1, second: i + 1, column: name }, lines[0]);
  });
  return names;
}

/** @param {Parsed[]} columns @param {Source} source */
function numberedNames(columns, source) {
  source.note('no-header');
  return columns.map((_, i) => `column ${i + 1}`);
}

/**
 * @param {string} name @param {number} number @param {Parsed} parsed @param {boolean} hasHeader
 * @returns {Promise<Column>}
 */
async function columnOf(name, number, parsed, hasHeader) {
  const { cells, values } = parsed;
  const hasFirst = !hasHeader && !isMissing(cells[0]);
  const present = parsed.present + (hasFirst ? 1 : 0);
  const numbers = parsed.numbers + (hasFirst && !Number.isNaN(values[0]) ? 1 : 0);
  const filled = areNumbers(numbers, present) ? 'numbers' : 'names';
  const kind = present ? filled : 'empty';
  const start = hasHeader ? 1 : 0;
  const body = hasHeader ? cells.slice(1) : cells;
  const distinct = kind === 'names' ? await distinctCells(body) : new Set();
  return { name, number, cells: body, kind, values: values.subarray(start), distinct };
}

/** @param {string[]} cells @returns {Promise<Set<string>>} */
async function distinctCells(cells) {
  const found = new Set();
  await forEachItem(cells, cell => {
    if (!isMissing(cell)) found.add(cell);
  });
  return found;
}

/** The first row with a cell that is neither number nor missing. @param {Column} column */
export function firstName({ cells, values }) {
  return cells.findIndex((cell, row) => Number.isNaN(values[row]) && !isMissing(cell));
}

/** @param {Column} column */
async function isIndex({ kind, cells, values, distinct }) {
  if (kind === 'names') return distinct.size === cells.length;
  const numbers = new Set();
  let low = Infinity;
  let high = -Infinity;
  await forEachItem(values, value => {
    if (!Number.isInteger(value)) return;
    numbers.add(value);
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  return numbers.size === cells.length && high - low === numbers.size - 1;
}

/** @param {Column[]} columns @param {number} count @returns {Preview} */
function previewOf(columns, count) {
  return {
    columns: columns.map(({ name, kind }) => ({ name, kind })),
    rows: Array.from({ length: Math.min(count, PREVIEW_ROWS) }, (_, row) =>
      columns.map(({ cells }) => cells[row]),
    ),
    count,
  };
}
