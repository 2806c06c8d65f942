// Arrays for an entry's inputs from .npz, .npy and .safetensors files. Mirrors array_files.py.

import { WgccError } from '../core/errors.js';
import { readTensors } from '../files/safetensors.js';
import { readNpy } from './npy.js';
import { Data } from './result.js';
import { listed } from './source.js';
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
  if (kind === 'safetensors') return readTensors(bytes, file.name).tensors;
  try {
    if (kind === 'npy') return { [stemOf(file.name)]: readNpy(bytes) };
    const members = Object.entries(await unzip(bytes));
    return Object.fromEntries(members.map(([name, data]) => [stemOf(name), readNpy(data)]));
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw new WgccError('data', `cannot read ${file.name}: ${message}`);
  }
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
  const [rows = 1] = entry.rows.map(name => found[name].shape[0]);
  return new Data({
    arrays: found,
    preparation: null,
    rows,
    withRows: entry.rows,
    notes: source.notes,
  });
}
