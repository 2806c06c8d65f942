// Cells as classes: names become ids, in an order that does not depend on the rows' order. Mirrors
// classes.py.

import { forEachIndex, forEachItem } from './pause.js';
import { shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { Port } from './form.js' */
/** @import { KnownClasses } from './known_classes.js' */
/** @typedef {{ids: Float64Array, names?: string[]}} Classes the id of each row, and the names of
 *   the classes; none where numbers are just numbers */

/** More are not shown. */
const MOST_LISTED = 13;

/**
 * The ids of the given rows.
 * @param {Table} table @param {Column} column @param {Uint32Array} rows @param {Port} port
 * @param {KnownClasses} [known] @returns {Promise<Classes>}
 */
export async function readClasses(table, column, rows, port, known) {
  const numbers = column.kind === 'numbers' ? await wholeNumbers(table, column, rows) : undefined;
  if (numbers && (await areIds(numbers, port, known))) {
    if (known) await noteIds(table, column, numbers, known);
    return { ids: numbers, names: await countedNames(numbers, port, known) };
  }
  const cellAt = numbers
    ? (/** @type {number} */ i) => wholeText(numbers[i])
    : (/** @type {number} */ i) => column.cells[rows[i]];
  const names = known
    ? await matchedNames(table, column, numbers, rows, port, known)
    : await newNames(table, column, numbers, rows, port);
  return { ids: await namedIds(rows.length, cellAt, names, port), names };
}

/**
 * @param {Table} table @param {Column} column @param {Float64Array | undefined} numbers
 * @param {Uint32Array} rows @param {Port} port
 */
async function newNames(table, column, numbers, rows, port) {
  const names = await sortedNames(table, column, numbers, rows, port);
  if (numbers && port.allowed) {
    const { low, high } = port.allowed;
    table.source.note('numbers-are-names', { column: column.name, low, high, names });
  }
  return names;
}

/**
 * Known names, and new ones after them. The number that an input ignores is no class.
 * @param {Table} table @param {Column} column @param {Float64Array | undefined} numbers
 * @param {Uint32Array} rows @param {Port} port @param {KnownClasses} known
 */
async function matchedNames(table, column, numbers, rows, port, known) {
  const ignored = `${port.allowed?.ignore}`;
  const names = await sortedNames(table, column, numbers, rows);
  const fresh = known.newAmong(names).filter(name => name !== ignored);
  const refusal = known.refusal(fresh);
  if (refusal) {
    const cellAt = (/** @type {number} */ row) =>
      numbers ? wholeText(column.values[row]) : column.cells[row];
    const row = rows[rows.findIndex(at => refusal.names.has(cellAt(at)))];
    const values = { subject: `\`${column.name}\` is ${shown(cellAt(row))}`, ...refusal.values };
    table.source.refuse(refusal.problem, values, table.lines[row], column.number);
  }
  return known.withNew(fresh, table.source);
}

/**
 * @param {number} count @param {(i: number) => string} cellAt @param {string[]} names
 * @param {Port} port
 */
async function namedIds(count, cellAt, names, port) {
  const ids = new Map(names.map((name, id) => [name, id]));
  const found = new Float64Array(count);
  await forEachIndex(count, i => {
    found[i] = ids.get(cellAt(i)) ?? port.allowed?.ignore ?? 0;
  });
  return found;
}

/** @param {Table} table @param {Column} column @param {Uint32Array} rows */
async function wholeNumbers(table, column, rows) {
  const numbers = new Float64Array(rows.length);
  await forEachIndex(rows.length, i => {
    const value = column.values[rows[i]];
    if (!Number.isInteger(value)) {
      const values = { column: column.name, cell: shown(column.cells[rows[i]]) };
      table.source.refuse('not-whole', values, table.lines[rows[i]], column.number);
    }
    numbers[i] = value;
  });
  return numbers;
}

/**
 * Whether all numbers may be used as they are: none is the name of another id.
 * @param {Float64Array} numbers @param {Port} port @param {KnownClasses} [known]
 */
async function areIds(numbers, port, known) {
  const ids = new Map(known?.names.map((name, id) => [name, id]));
  const isId = (/** @type {number} */ number) =>
    (port.isFloat ? number >= 0 && number < port.rowSize : port.allows(number)) &&
    (!ids.size || (ids.get(wholeText(number)) ?? number) === number);
  let allowed = 0;
  await forEachItem(numbers, number => {
    if (isId(number)) allowed++;
  });
  return allowed === numbers.length;
}

/**
 * Those that are known, then `0`, `1`, … up to the largest.
 * @param {Float64Array} numbers @param {Port} port @param {KnownClasses} [known]
 */
async function countedNames(numbers, port, known) {
  if (!known && port.allowed?.low !== 0) return undefined;
  const names = [...(known?.names ?? [])];
  let highest = 0;
  await forEachItem(numbers, number => {
    highest = Math.max(highest, number);
  });
  if (port.classCount) for (let id = names.length; id <= highest; id++) names.push(`${id}`);
  return names;
}

/**
 * @param {Table} table @param {Column} column @param {Float64Array} numbers
 * @param {KnownClasses} known
 */
async function noteIds({ source }, column, numbers, { names }) {
  /** @type {Set<number>} */
  const used = new Set();
  await forEachItem(numbers, number => {
    if (number >= 0 && number < names.length && names[number] !== `${number}`) used.add(number);
  });
  if (!used.size) return;
  const ids = [...used].sort(byValue).map(number => `${number} is ${names[number]}`);
  source.note('numbers-are-ids', { column: column.name, ids });
}

/** As Python writes an integer of any size. @param {number} number */
function wholeText(number) {
  return Number.isSafeInteger(number) ? `${number}` : `${BigInt(number)}`;
}

/**
 * @param {Table} table @param {Column} column @param {Float64Array | undefined} numbers
 * @param {Uint32Array} rows @param {Port} [port] that must have as many classes
 * @returns {Promise<string[]>}
 */
async function sortedNames({ source }, column, numbers, rows, port) {
  /** @type {Set<any>} */
  const distinct = new Set();
  await forEachIndex(rows.length, i => {
    distinct.add(numbers ? numbers[i] : column.cells[rows[i]]);
  });
  /** @type {(a: any, b: any) => number} */
  const order = numbers ? byValue : byCodePoints;
  const text = numbers ? wholeText : String;
  const most = port?.isFloat ? port.rowSize : (port?.classCount ?? Infinity);
  if (port && distinct.size > most) {
    const classes = (await firstOf(distinct, order)).map(text);
    const counts = { count: distinct.size, classes, most };
    source.refuse('class-count', { column: column.name, input: port.name, ...counts });
  }
  return [...distinct].sort(order).map(text);
}

/** @param {number} a @param {number} b */
function byValue(a, b) {
  return a - b;
}

/** Python's order; JavaScript's own is that of UTF-16. @param {string} a @param {string} b */
export function byCodePoints(a, b) {
  for (let i = 0; ; i++) {
    const [x, y] = [a.codePointAt(i) ?? -1, b.codePointAt(i) ?? -1];
    if (x !== y || x < 0) return x - y;
  }
}

/**
 * The first of many items in an order, as many as are shown: sorting all would take long.
 * @template T @param {Set<T>} items @param {(a: T, b: T) => number} order
 */
export async function firstOf(items, order) {
  /** @type {T[]} */
  const found = [];
  await forEachItem(items, item => {
    const last = found[found.length - 1];
    if (found.length === MOST_LISTED && order(item, last) > 0) return;
    found.push(item);
    found.sort(order);
    found.splice(MOST_LISTED);
  });
  return found;
}
