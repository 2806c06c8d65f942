// JSON as a table: a list of objects, a list of lists, an object of lists; or as arrays. Mirrors
// json_tables.py.

import { JsonNumber, parseJson } from './json_reader.js';
import { forEachIndex, forEachItem } from './pause.js';
import { addRecord } from './records.js';
import { trimmed } from './source.js';

/** @import { Delimited } from './records.js' */
/** @import { Source } from './source.js' */
/** @import { Chunks } from './text_lines.js' */
/** @typedef {{records: Delimited, header?: boolean}} JsonTable `header`: whether the first record is
 *   one; undefined where the rules of tables decide */
/** @typedef {Record<string, any>} NamedArrays typed arrays with their shapes */

/**
 * @param {Chunks} chunks @param {Source} source
 * @returns {Promise<{table?: JsonTable, arrays?: NamedArrays}>}
 */
export async function readJson(chunks, source) {
  const value = await parseJson([...chunks()].join(''), source);
  source.unit = 'row';
  const items = value instanceof Map ? [...value.values()] : value;
  if (!Array.isArray(items)) return source.refuse('json-form');
  if (!items.length) source.refuse('empty-file');
  const areLists = items.every(Array.isArray);
  if (value instanceof Map && areLists) {
    const isNested = items.some(list => list.some(Array.isArray));
    if (isNested) return { arrays: arraysOf(value, source) };
    return { table: await tableOfColumns(value, source) };
  }
  if (value === items && areLists) return { table: await tableOfLists(items, source) };
  if (value === items && items.every(item => item instanceof Map))
    return { table: await tableOfObjects(items, source) };
  return source.refuse('json-form');
}

/** @returns {Delimited} */
function noRecords() {
  return { columns: [], lines: [], delimiter: '' };
}

/** @param {Map<string, any>[]} items @param {Source} source @returns {Promise<JsonTable>} */
async function tableOfObjects(items, source) {
  /** @type {Set<string>} */
  const names = new Set();
  await forEachItem(items, item => {
    for (const name of item.keys()) names.add(name);
  });
  const records = noRecords();
  addRecord(records, { line: 0, cells: [...names].map(trimmed) }, source);
  await forEachIndex(items.length, row => {
    const cells = Array.from(names, (name, i) =>
      cellOf(items[row].get(name), row + 1, i + 1, source),
    );
    addRecord(records, { line: row + 1, cells }, source);
  });
  return { records, header: true };
}

/** @param {any[][]} items @param {Source} source @returns {Promise<JsonTable>} */
async function tableOfLists(items, source) {
  const records = noRecords();
  const width = items[0].length;
  await forEachIndex(items.length, row => {
    const cells = items[row].map((value, i) => cellOf(value, row + 1, i + 1, source));
    if (cells.length !== width)
      source.refuse('field-count', { count: cells.length, unit: 'row', width }, row + 1);
    addRecord(records, { line: row + 1, cells }, source);
  });
  if (!width) source.refuse('empty-file');
  return { records };
}

/** @param {Map<string, any[]>} value @param {Source} source @returns {Promise<JsonTable>} */
async function tableOfColumns(value, source) {
  const [[first, items]] = value;
  for (const [name, other] of value)
    if (other.length !== items.length) {
      const counts = { count: items.length, length: other.length };
      source.refuse('json-lengths', { column: first, other: name, ...counts });
    }
  const records = noRecords();
  addRecord(records, { line: 0, cells: [...value.keys()].map(trimmed) }, source);
  const lists = [...value.values()];
  await forEachIndex(items.length, row => {
    const cells = lists.map((list, i) => cellOf(list[row], row + 1, i + 1, source));
    addRecord(records, { line: row + 1, cells }, source);
  });
  return { records, header: true };
}

/** @param {any} value @param {number} row @param {number} column @param {Source} source */
function cellOf(value, row, column, source) {
  if (value === null || value === undefined) return '';
  if (value instanceof JsonNumber) return value.text;
  if (typeof value === 'string') return trimmed(value);
  if (typeof value === 'boolean') return `${value}`;
  return source.refuse('json-nested', {}, row, column);
}

/** @param {Map<string, any[]>} value @param {Source} source @returns {NamedArrays} */
function arraysOf(value, source) {
  return Object.fromEntries(
    Array.from(value, ([name, items]) => {
      const shape = shapeOf(items);
      const list = items.flat(Infinity);
      const isArray = hasShape(items, shape) && list.every(item => item instanceof JsonNumber);
      if (!isArray) source.refuse('json-array', { input: name });
      const numbers = Float64Array.from(list, ({ text }) => Number(text));
      const areWhole = list.every(({ text }) => /^-?[0-9]+$/.test(text));
      const areInts = areWhole && numbers.every(number => (number | 0) === number);
      return [name, Object.assign(areInts ? Int32Array.from(numbers) : numbers, { shape })];
    }),
  );
}

/** Of the first item, its first item and so on. @param {any} items @returns {number[]} */
function shapeOf(items) {
  return Array.isArray(items) ? [items.length, ...shapeOf(items[0])] : [];
}

/** @param {any} items @param {number[]} shape @returns {boolean} */
function hasShape(items, [size, ...inner]) {
  if (size === undefined) return !Array.isArray(items);
  return (
    Array.isArray(items) && items.length === size && items.every(item => hasShape(item, inner))
  );
}
