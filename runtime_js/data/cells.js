// Cells as numbers: what is one, what counts as missing, and which decimal mark a table uses.
// Mirrors numbers.py.

import DATA_WORDS from '../../runtime_py/wgcc_runtime/tables/data_words.json' with { type: 'json' };
import { forEachIndex } from './pause.js';
import { shown } from './source.js';

/** @import { Delimited } from './records.js' */
/** @import { Source } from './source.js' */
/** @typedef {(cell: string) => number} Parse gives NaN for what is no number */
/** @typedef {{cells: string[], row: number, column: number}} Marked the cells of a number column
 *   that have a decimal mark, and the place of the first */

// biome-ignore format: one after the other, as in numbers.py
const MISSING = new Set(DATA_WORDS.missing);
/** Of f32. */
const LARGEST = 3.4028234663852886e38;
const WITH_POINT = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const WITH_COMMA = /^[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const THOUSANDS = /^[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}$/;

/** @param {string} cell */
export function isMissing(cell) {
  return MISSING.has(cell);
}

/** @type {Parse} */
export function parsePoint(cell) {
  return WITH_POINT.test(cell) ? finite(Number(cell)) : Number.NaN;
}

/** @type {Parse} */
export function parseComma(cell) {
  return WITH_COMMA.test(cell) ? finite(Number(cell.replace(',', '.'))) : Number.NaN;
}

/** @param {number} value */
export function finite(value) {
  return Math.abs(value) <= LARGEST ? value : Number.NaN;
}

/** Whether at least 90 % of the cells that are not missing are numbers. */
export function areNumbers(/** @type {number} */ numbers, /** @type {number} */ present) {
  return present > 0 && 10 * numbers >= 9 * present;
}

/**
 * How the numbers of a table are read.
 * @param {Delimited} table @param {string | null | undefined} decimal @param {Source} source
 * @returns {Promise<Parse>}
 */
export async function numberParser(table, decimal, source) {
  if (decimal) return decimal === ',' ? parseComma : parsePoint;
  if (table.delimiter === ',') return parsePoint;
  const commas = await markedColumns(table, ',', parseComma);
  if (!commas.length && table.delimiter !== ';') return parsePoint;
  const points = await markedColumns(table, '.', parsePoint);
  if (!commas.length) {
    refuseThousands(table, points, source);
    return parsePoint;
  }
  refuseDoubt(table, commas, points, source);
  source.note('decimal-comma');
  return parseComma;
}

/**
 * @param {Delimited} table @param {string} mark @param {Parse} parse @returns {Promise<Marked[]>}
 */
async function markedColumns({ columns, lines }, mark, parse) {
  const start = lines.length > 1 ? 1 : 0;
  /** @type {Marked[]} */
  const found = [];
  for (const [column, cells] of columns.entries()) {
    let present = 0;
    let numbers = 0;
    /** @type {number[]} */
    const marked = [];
    await forEachIndex(lines.length - start, i => {
      const cell = cells[start + i];
      if (isMissing(cell)) return;
      present++;
      if (Number.isNaN(parse(cell))) return;
      numbers++;
      if (cell.includes(mark)) marked.push(start + i);
    });
    if (marked.length && areNumbers(numbers, present))
      found.push({ cells: marked.map(row => cells[row]), row: marked[0], column: column + 1 });
  }
  return found;
}

/**
 * @param {Delimited} table @param {Marked[]} commas @param {Marked[]} points @param {Source} source
 */
function refuseDoubt({ lines }, commas, [point], source) {
  const [{ cells, row, column }] = commas;
  if (point) {
    source.refuse('mixed-decimals', {
      comma: shown(cells[0]),
      first: source.place(lines[row], column),
      point: shown(point.cells[0]),
      second: source.place(lines[point.row], point.column),
    });
  }
  refuseThousands({ lines }, commas, source);
}

/**
 * If all their marks may separate thousands.
 * @param {Pick<Delimited, 'lines'>} table @param {Marked[]} columns @param {Source} source
 */
function refuseThousands({ lines }, columns, source) {
  if (!columns.length || !columns.every(({ cells }) => cells.every(one => THOUSANDS.test(one))))
    return;
  const [{ cells, row, column }] = columns;
  const fraction = cells[0].replace(',', '.');
  const readings = { cell: shown(cells[0]), whole: fraction.replace('.', ''), fraction };
  source.refuse('thousands', readings, lines[row], column);
}
