// Dates as people write them, as numbers: year, month, day, day of the week and hour. Mirrors
// dates.py.

const TIME =
  '(?:[T ]([0-9]{1,2}):([0-9]{2})(?::[0-9]{2}(?:\\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?$';
const YEAR_FIRST = new RegExp(`^([0-9]{4})([-/.]?)([0-9]{1,2})\\2([0-9]{1,2})${TIME}`);
const YEAR_LAST = new RegExp(`^([0-9]{1,2})([-/.])([0-9]{1,2})\\2([0-9]{4})${TIME}`);
/** The places of year, month and day in the three numbers of a date, by their order. */
const PLACES = { ymd: [0, 1, 2], dmy: [2, 1, 0], mdy: [2, 0, 1] };
/** @typedef {keyof typeof PLACES} Order */
export const ORDERS = /** @type {Order[]} */ (Object.keys(PLACES));
/** What may be read from a date; the day of the week is 1 on Mondays. */
export const PARTS = ['year', 'month', 'day', 'weekday', 'hour'];

/** The numbers of `PARTS`. @param {string} cell @param {Order} order @returns {number[] | undefined} */
export function dateParts(cell, order) {
  const match = (order === 'ymd' ? YEAR_FIRST : YEAR_LAST).exec(cell);
  if (!match || (!match[2] && cell.length !== 8)) return;
  const numbers = [match[1], match[3], match[4]].map(Number);
  const [year, month, day] = PLACES[order].map(place => numbers[place]);
  const hour = Number(match[5] ?? 0) + Number(match[6] ?? 0) / 60;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isDay = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!isDay || year < 1 || hour > 24) return;
  return [year, month, day, date.getUTCDay() || 7, hour];
}

/** The orders in which all cells are dates; with points between, the day comes first. @param {string[]} cells */
export function dateOrders(cells) {
  const hasPoints = cells.some(cell => cell.split(/[ T]/)[0].includes('.'));
  return ORDERS.filter(
    order => !(order === 'mdy' && hasPoints) && cells.every(cell => dateParts(cell, order)),
  );
}

/** Whether numbers of eight digits are dates: other numbers rarely begin with such years. @param {string[]} cells */
export const isLikeToday = cells =>
  cells.every(cell => cell.length === 8 && cell >= '1900' && cell.slice(0, 4) <= '2100');

/** The parts that are not the same in all dates: nothing can be learned from the others. @param {number[][]} dates */
export const varyingParts = dates =>
  PARTS.filter((_, i) => dates.some(parts => parts[i] !== dates[0][i]));
