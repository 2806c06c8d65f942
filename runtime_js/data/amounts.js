// Numbers with a unit or with separated thousands: `$1,200`, `12 kg`, `25 %`, `6'380`. Mirrors
// amounts.py.

import { areNumbers, finite, isMissing, parseComma } from './cells.js';
import { forEachIndex } from './pause.js';

/** @import { Parse } from './cells.js' */
/** @import { Column, Table } from './columns.js' */

const BLANK = '[ \\u00a0\\u202f]?';
const BEFORE = '[$€£¥₹]|[A-Z]{3}';
const AFTER = '[A-Za-zµ°%$€£¥₹²³/]{1,8}';

/** Columns of amounts become columns of numbers. @param {Table} table @param {Parse} parse */
export async function readAmounts({ columns }, parse) {
  const mark = parse === parseComma ? ',' : '.';
  const pattern = amountPattern(mark);
  for (const column of columns) {
    const isRead = column.kind === 'numbers' || column.kind === 'names';
    if (!isRead || column.cells.every((cell, row) => isPlain(cell, column.values[row]))) continue;
    await readColumn(column, parse, pattern, mark);
  }
}

/** @param {string} cell @param {number} value */
const isPlain = (cell, value) => !Number.isNaN(value) || isMissing(cell);

/** The second group is what separates thousands, the same in the whole cell. @param {string} mark */
function amountPattern(mark) {
  const separators = ",.'’ \\u00a0\\u202f".replace(mark, '');
  const grouped = `[1-9][0-9]{0,2}([${separators}])[0-9]{3}(?:\\5[0-9]{3})*`;
  const number = `(?:${grouped}|[0-9]+)(?:\\${mark}[0-9]*)?`;
  return new RegExp(`^([+-]?)(${BEFORE})?${BLANK}([+-]?)(${number})${BLANK}(${AFTER})?$`);
}

/** At least 90 % of the cells are amounts, all with one unit. @param {Column} column @param {Parse} parse @param {RegExp} pattern @param {string} mark */
async function readColumn(column, parse, pattern, mark) {
  const { cells } = column;
  const values = new Float64Array(cells.length).fill(Number.NaN);
  const units = new Set();
  const counts = { present: 0, numbers: 0 };
  await forEachIndex(cells.length, row => {
    if (isMissing(cells[row])) return;
    counts.present++;
    const { value, unit } = amountOf(cells[row], parse, pattern, mark);
    if (Number.isNaN(value)) return;
    values[row] = value;
    counts.numbers++;
    if (unit) units.add(unit);
  });
  if (units.size > 1 || !areNumbers(counts.numbers, counts.present)) return;
  Object.assign(column, { kind: 'numbers', values, unit: [...units][0] ?? '' });
}

/** @param {string} cell @param {Parse} parse @param {RegExp} pattern @param {string} mark */
function amountOf(cell, parse, pattern, mark) {
  const plain = parse(cell);
  if (!Number.isNaN(plain)) return { value: plain, unit: '' };
  const [, sign, before = '', inner, number, separator, after = ''] = pattern.exec(cell) ?? [];
  if (number === undefined || (sign && inner)) return { value: Number.NaN, unit: '' };
  const digits = separator ? number.replaceAll(separator, '') : number;
  const value = finite(Number(sign + inner + digits.replace(mark, '.')));
  return { value, unit: before + after };
}
