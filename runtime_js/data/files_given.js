// What a caller gives as a source, as files: a File or several, bytes, or text.

import { fail } from '../core/errors.js';

/**
 * @typedef {object} SourceFile
 * @property {string} name
 * @property {string[]} path the names of its folders, as far as they were given, and its own
 * @property {() => Promise<Uint8Array<ArrayBuffer>>} bytes
 */

/**
 * @param {any} source a File, Blob, list of Files, bytes or text
 * @param {string} [name] of a source that has none
 * @returns {SourceFile[]}
 */
export function filesGiven(source, name) {
  const isList =
    Array.isArray(source) || Object.prototype.toString.call(source) === '[object FileList]';
  const files = isList ? Array.from(source) : [source];
  if (!files.length) fail('data', '', 'no file was given');
  return files.map(file => fileOf(file, name));
}

/** @param {any} given @param {string} [name] @returns {SourceFile} */
function fileOf(given, name) {
  // Folders that were chosen or dropped: `path` is set by the page, the other by browsers.
  const path = given?.path ?? given?.webkitRelativePath ?? '';
  const own = given?.name ?? name ?? 'data';
  const parts = path ? path.split('/') : [own];
  return { name: own, path: parts, bytes: async () => bytesOf(given) };
}

/** @param {any} given @returns {Promise<Uint8Array<ArrayBuffer>>} */
async function bytesOf(given) {
  if (typeof given === 'string') return new TextEncoder().encode(given);
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  if (ArrayBuffer.isView(given))
    return new Uint8Array(
      /** @type {ArrayBuffer} */ (given.buffer),
      given.byteOffset,
      given.byteLength,
    );
  if (typeof given?.arrayBuffer === 'function') return new Uint8Array(await given.arrayBuffer());
  return fail('data', '', 'a source is a File, a list of Files, a Blob, bytes or text');
}
