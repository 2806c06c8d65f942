// Columns as people write them become features: columns of numbers, which a model takes. Their
// sources say how a column is written, and are kept in the preparation. Mirrors features.py.

import { isMissing } from './cells.js';
import { byCodePoints } from './classes.js';
import { dateOrders, dateParts, isLikeToday, PARTS, varyingParts } from './dates.js';
import { forEachIndex, forEachItem } from './pause.js';
import { shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { Source } from './source.js' */
/** @import { Order } from './dates.js' */
/**
 * @typedef {object} FeatureSource
 * @property {string} column
 * @property {string} [unit] of numbers
 * @property {string[]} [names] a feature for each, 0 or 1
 * @property {Order} [date]
 * @property {string[]} [parts] of the date
 */

/** With more names, rows of equal names are too few to learn from. */
const MOST_NAMES = 32;

/** How the columns become features. Columns that nothing can be learned from are noted. @param {Table} table @param {Column[]} columns */
export async function findSources({ source }, columns) {
  /** @type {FeatureSource[]} */
  const sources = [];
  for (const column of columns) {
    const own = await sourceOf(column, source);
    if (own) sources.push(own);
  }
  return sources;
}

/** @param {Column} column @returns {FeatureSource} */
export const numberSource = ({ name, unit }) => ({ column: name, ...(unit && { unit }) });

/**
 * The features of columns, as their sources say.
 * @param {Table} table @param {Column[]} columns @param {FeatureSource[]} sources
 */
export async function makeFeatures(table, columns, sources) {
  /** @type {Column[]} */
  const features = [];
  for (const [i, column] of columns.entries()) {
    const source = sources[i];
    if (source.names) features.push(...(await nameFeatures(column, source.names, table.source)));
    else if (source.date) features.push(...(await dateFeatures(column, source, table)));
    else {
      checkUnit(column, source, table);
      features.push(column);
    }
  }
  return features;
}

/** @param {FeatureSource} source */
export function featureNames({ column, names, parts }) {
  if (names) return toldApart(names).map(name => `${column} = ${name}`);
  return parts ? parts.map(part => `${column}: ${part}`) : [column];
}

/** @param {Column} column @param {Source} notes @returns {Promise<FeatureSource | undefined>} */
async function sourceOf(column, notes) {
  const { name, kind, cells, unit } = column;
  const { count, names } = await presentNames(cells);
  if (2 * count < cells.length) {
    notes.note('column-gaps', { column: name, count: cells.length - count });
    return;
  }
  if (names.length === 1 && count === cells.length) {
    notes.note('column-constant', { column: name, cell: shown(names[0]) });
    return;
  }
  if (kind === 'numbers' && (unit !== undefined || !isLikeToday(names)))
    return numberSource(column);
  const [date, ...more] = dateOrders(names);
  if (more.length) {
    const cell = shown(cells.find(one => !isMissing(one)) ?? '');
    notes.note('column-dates', { column: name, cell });
    return;
  }
  if (date) {
    const dates = names.map(one => dateParts(one, date) ?? []);
    return { column: name, date, parts: varyingParts(dates) };
  }
  if (kind === 'numbers') return numberSource(column);
  if (names.length <= MOST_NAMES && 2 * names.length <= count)
    return { column: name, names: names.sort(byCodePoints) };
  notes.note('column-names', { column: name, count: names.length });
}

/** The different cells with a value, and how many there are with equal ones. @param {string[]} cells */
async function presentNames(cells) {
  /** @type {Set<string>} */
  const names = new Set();
  let count = 0;
  await forEachItem(cells, cell => {
    if (isMissing(cell)) return;
    names.add(cell);
    count++;
  });
  return { count, names: [...names] };
}

const isTruth = (/** @type {string} */ name) => /^(true|false)$/i.test(name);

/** One feature says which of two names it is. @param {string[]} names */
const toldApart = names => (names.length === 2 ? names.slice(1) : names);

/** @param {Column} column @param {string[]} names @param {Source} notes */
async function nameFeatures(column, names, notes) {
  const known = new Set(names);
  // Frames and JSON have `true` where a CSV file may have `True`.
  const truths = new Map(names.filter(isTruth).map(name => [name.toLowerCase(), name]));
  /** @type {Set<string>} */
  const unknown = new Set();
  const cells = [...column.cells];
  await forEachIndex(cells.length, row => {
    if (isMissing(cells[row]) || known.has(cells[row])) return;
    const truth = truths.get(cells[row].toLowerCase());
    if (!truth) unknown.add(cells[row]);
    cells[row] = truth ?? '';
  });
  if (unknown.size) {
    const sorted = [...unknown].sort(byCodePoints);
    notes.note('names-unknown', { column: column.name, names: sorted });
  }
  const features = [];
  for (const name of toldApart(names)) {
    const values = new Float64Array(cells.length);
    await forEachIndex(cells.length, row => {
      values[row] = isMissing(cells[row]) ? Number.NaN : Number(cells[row] === name);
    });
    features.push(feature({ ...column, cells }, `${column.name} = ${name}`, values));
  }
  return features;
}

/** @param {Column} column @param {FeatureSource} source @param {Table} table */
async function dateFeatures(column, { date, parts = [] }, { source, lines }) {
  const { name, number, cells } = column;
  const features = parts.map(part =>
    feature(column, `${name}: ${part}`, new Float64Array(cells.length).fill(Number.NaN)),
  );
  const places = parts.map(part => PARTS.indexOf(part));
  await forEachIndex(cells.length, row => {
    if (isMissing(cells[row])) return;
    const numbers =
      dateParts(cells[row], /** @type {Order} */ (date)) ??
      source.refuse('no-date', { column: name, cell: shown(cells[row]) }, lines[row], number);
    for (const [i, { values }] of features.entries()) values[row] = numbers[places[i]];
  });
  return features;
}

/** @param {Column} column @param {string} name @param {Float64Array} values @returns {Column} */
const feature = (column, name, values) => ({ ...column, name, kind: 'numbers', values });

/** @param {Column} column @param {FeatureSource} known @param {Table} table */
function checkUnit({ name, number, cells, unit }, known, { source, lines }) {
  if (!unit || unit === known.unit) return;
  const row = cells.findIndex(cell => cell.includes(unit));
  const values = { column: name, cell: shown(cells[row]), unit: known.unit ?? '' };
  source.refuse('other-unit', { ...values, plain: !known.unit }, lines[row], number);
}
