// Cells as classes: names become ids, in an order that does not depend on the rows' order. Mirrors
// classes.py.

import { forEachIndex, forEachItem } from './pause.js';
import { listed, shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { Port } from './form.js' */
/** @typedef {{ids: Float64Array, names?: string[]}} Classes the id of each row, and the names of
 *   the classes; none where numbers are just numbers */

/** More are not shown. */
const MOST_LISTED = 13;

/**
 * The ids of the given rows.
 * @param {Table} table @param {Column} column @param {Uint32Array} rows @param {Port} port
 * @param {string[]} [known] the classes that the model was trained with
 * @returns {Promise<Classes>}
 */
export async function readClasses(table, column, rows, port, known) {
  const numbers = column.kind === 'numbers' ? await wholeNumbers(table, column, rows) : undefined;
  if (numbers && !known && (await areAllowed(numbers, port)))
    return { ids: numbers, names: await countedNames(numbers, port) };
  const cellAt = numbers
    ? (/** @type {number} */ i) => wholeText(numbers[i])
    : (/** @type {number} */ i) => column.cells[rows[i]];
  if (known)
    return { ids: await idsOfKnown(table, column, rows, cellAt, known, port), names: known };
  const names = await sortedNames(table, column, numbers, rows, port);
  if (numbers && port.allowed) {
    const { low, high } = port.allowed;
    table.source.note(
      `\`${column.name}\` has numbers outside ${low} to ${high}, so its numbers are names of ` +
        `classes: ${listed(names)}.`,
    );
  }
  const ids = new Map(names.map((name, id) => [name, id]));
  const found = new Float64Array(rows.length);
  await forEachIndex(rows.length, i => {
    found[i] = /** @type {number} */ (ids.get(cellAt(i)));
  });
  return { ids: found, names };
}

/** @param {Table} table @param {Column} column @param {Uint32Array} rows */
async function wholeNumbers(table, column, rows) {
  const numbers = new Float64Array(rows.length);
  await forEachIndex(rows.length, i => {
    const value = column.values[rows[i]];
    if (!Number.isInteger(value)) {
      const text = `\`${column.name}\` is ${shown(column.cells[rows[i]])}, not a whole number`;
      table.source.refuse(text, table.lines[rows[i]], column.number);
    }
    numbers[i] = value;
  });
  return numbers;
}

/** Whether all numbers may be used as they are. @param {Float64Array} numbers @param {Port} port */
async function areAllowed(numbers, port) {
  let allowed = 0;
  await forEachItem(numbers, number => {
    if (port.allows(number)) allowed++;
  });
  return allowed === numbers.length;
}

/** `0`, `1`, … up to the largest. @param {Float64Array} numbers @param {Port} port */
async function countedNames(numbers, port) {
  if (port.allowed?.low !== 0) return undefined;
  let highest = 0;
  await forEachItem(numbers, number => {
    highest = Math.max(highest, number);
  });
  return Array.from({ length: highest + 1 }, (_, number) => `${number}`);
}

/** As Python writes an integer of any size. @param {number} number */
function wholeText(number) {
  return Number.isSafeInteger(number) ? `${number}` : `${BigInt(number)}`;
}

/**
 * @param {Table} table @param {Column} column @param {Float64Array | undefined} numbers
 * @param {Uint32Array} rows @param {Port} port @returns {Promise<string[]>}
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
  const most = port.isFloat ? port.rowSize : (port.classCount ?? Infinity);
  if (distinct.size > most) {
    const first = (await firstOf(distinct, order)).map(text);
    const classes = `${distinct.size} classes (${listed(first)})`;
    source.refuse(`\`${column.name}\` has ${classes}, but \`${port.name}\` has ${most}`);
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

/**
 * @param {Table} table @param {Column} column @param {Uint32Array} rows
 * @param {(i: number) => string} cellAt @param {string[]} known @param {Port} port
 */
async function idsOfKnown(table, column, rows, cellAt, known, port) {
  const ids = new Map(known.map((name, id) => [name, id]));
  const { ignore } = port.allowed ?? {};
  if (ignore !== undefined && !ids.has(`${ignore}`)) ids.set(`${ignore}`, ignore);
  const found = new Float64Array(rows.length);
  await forEachIndex(rows.length, i => {
    const id = ids.get(cellAt(i));
    if (id === undefined) {
      const text = `\`${column.name}\` is ${shown(cellAt(i))}, a class that the model does not know`;
      const line = table.lines[rows[i]];
      table.source.refuse(`${text}; it knows: ${listed(known)}`, line, column.number);
    }
    found[i] = id;
  });
  return found;
}
