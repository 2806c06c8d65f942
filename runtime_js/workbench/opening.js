// Reads programs from files, and from the zip of a bundle or of a folder.

import { unzip } from '../data/zip.js';
import { isName, MOST_BYTES, MOST_FILES } from './sharing.js';

/** The texts of files by name, and which of them is opened. @param {File[]} list */
export async function readPrograms(list) {
  /** @type {[string, Uint8Array][]} */
  const read = [];
  for (const file of list) {
    const isZip = file.name.endsWith('.zip');
    if (!isZip && file.size > MOST_BYTES) throw tooMuch();
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (isZip) read.push(...(await programsOf(bytes)));
    else read.push([file.name, bytes]);
  }
  const kept = read.filter(([name]) => isName(name));
  const size = kept.reduce((sum, [, { length }]) => sum + length, 0);
  if (size > MOST_BYTES || kept.length > MOST_FILES) throw tooMuch();
  const programs = kept.map(([name]) => name).filter(name => name.endsWith('.wg'));
  const main = programs.find(name => name === 'model.wg') ?? programs[0];
  if (!main) throw new Error('There is no .wg program in what was opened.');
  const texts = kept.map(([name, bytes]) => [name, new TextDecoder().decode(bytes)]);
  return { files: Object.fromEntries(texts), main };
}

const tooMuch = () =>
  new Error(
    `The programs have more than ${MOST_BYTES / 1e6} MB, or are more than ${MOST_FILES} files.`,
  );

/** What stands beside the first program: neither weights nor kernels that were made. @param {Uint8Array} bytes @returns {Promise<[string, Uint8Array][]>} */
async function programsOf(bytes) {
  const found = Object.entries(await unzip(bytes, name => /\.(wg|wgsl)$/.test(name), MOST_BYTES));
  const folderOf = (/** @type {string} */ path) => path.slice(0, path.lastIndexOf('/') + 1);
  const [first = ''] = found.map(([path]) => path).filter(path => path.endsWith('.wg'));
  return found
    .filter(([path]) => folderOf(path) === folderOf(first))
    .map(([path, content]) => [path.slice(folderOf(path).length), content]);
}

/** The files of the program that was compiled. @param {import('./state.js').Built} built */
export const sourcesOf = ({ settings }) =>
  Object.fromEntries(
    Object.entries(settings.files).map(([name, text]) => [name, new TextEncoder().encode(text)]),
  );
