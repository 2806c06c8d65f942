// Arrays for an entry's inputs from .npz, .npy and .safetensors files. Mirrors array_files.py.

import { WgccError } from '../core/errors.js';
import { mapRecord } from '../core/records.js';
import { readTensors } from '../files/safetensors.js';
import { readNpy } from './npy.js';
import { listed } from './problems.js';
import { Data } from './result.js';
import { checkRows } from './rows_left.js';
import { unzip } from './zip.js';

/** @import { SourceFile } from './files_given.js' */
/** @import { EntryForm } from './form.js' */
/** @import { Source } from './source.js' */

const ARRAY_SUFFIX = /\.(npz|npy|safetensors)$/i;

/** @param {SourceFile} file */
export function holdsArrays({ name }) {
  return ARRAY_SUFFIX.test(name);
}

/**
 * All arrays by name; a .npy file is named by its stem.
 * @param {SourceFile[]} files @returns {Promise<Record<string, any>>}
 */
export async function readArrays(files) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const file of files) Object.assign(found, await arraysIn(file));
  return found;
}

/** @param {SourceFile} file @returns {Promise<Record<string, any>>} */
async function arraysIn(file) {
  const bytes = await file.bytes();
  const kind = ARRAY_SUFFIX.exec(file.name)?.[1].toLowerCase();
  try {
    if (kind === 'safetensors')
      return mapRecord({ ...readTensors(bytes, file.name).tensors }, asNumbers);
    if (kind === 'npy') return { [stemOf(file.name)]: asNumbers(readNpy(bytes)) };
    const members = Object.entries(await unzip(bytes));
    const arrays = members.map(([name, data]) => [stemOf(name), asNumbers(readNpy(data))]);
    return Object.fromEntries(arrays);
  } catch (error) {
    const message = /** @type {Error} */ (error).message.replace(/^weights: /, '');
    throw new WgccError('data', `cannot read ${file.name}: ${message}`);
  }
}

/** Integers of 64 bits, numpy's usual ones, as numbers. @param {any} array */
function asNumbers(array) {
  const { shape } = array;
  if (!(array instanceof BigInt64Array || array instanceof BigUint64Array)) return array;
  const numbers = Float64Array.from(array, Number);
  const isShort = numbers.every(number => (number | 0) === number);
  return Object.assign(isShort ? new Int32Array(numbers) : numbers, { shape });
}

/** @param {string} name */
function stemOf(name) {
  return name.replace(/\.npy$/i, '');
}

/**
 * The arrays with the names of the entry's inputs; others are ignored.
 * @param {Record<string, any>} arrays @param {Source} source @param {EntryForm} entry
 */
export function dataOfArrays(arrays, source, entry) {
  const missing = Object.keys(entry.inputs).find(name => !Object.hasOwn(arrays, name));
  if (missing !== undefined) {
    const there = listed(Object.keys(arrays)) || 'nothing';
    const what = `\`${missing}\` (${entry.inputs[missing]}) for the entry \`${entry.name}\``;
    const error = new WgccError('data', `${source.name} has no ${what}; it has: ${there}`);
    throw Object.assign(error, { field: missing });
  }
  const found = Object.fromEntries(Object.keys(entry.inputs).map(name => [name, arrays[name]]));
  return new Data({
    arrays: found,
    preparation: null,
    rows: rowCount(found, source, entry),
    withRows: entry.rows,
    notes: source.notes,
  });
}

/**
 * How many rows all inputs with rows have; refuses other shapes than the entry takes.
 * @param {Record<string, any>} arrays @param {Source} source @param {EntryForm} entry
 */
function rowCount(arrays, source, entry) {
  for (const name of entry.rows) {
    const { shape } = arrays[name];
    const port = entry.inputs[name];
    if (!shape.length || `${shape.slice(1)}` !== `${port.rowShape}`) {
      const shapes = { shape: `[${shape.join(', ')}]`, wanted: `[${port.shape.join(', ')}]` };
      source.refuse('array-shape', { input: name, ...shapes });
    }
  }
  const [first] = entry.rows;
  const rows = first === undefined ? 1 : arrays[first].shape[0];
  const other = entry.rows.find(name => arrays[name].shape[0] !== rows);
  if (other) {
    const length = arrays[other].shape[0];
    source.refuse('array-rows', { input: first, count: rows, other, length });
  }
  checkRows(source, entry, rows, [], false);
  return rows;
}
