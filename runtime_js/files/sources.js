// Where bytes come from: an address, a file that the user chose, or memory.

import { fail } from '../core/errors.js';
import { bytesOf } from './safetensors.js';

/** @import { OnBytes } from '../core/loader.js' */
/** @import { Pieces } from './tensor_stream.js' */
/**
 * @typedef {object} Reading
 * @property {number} [limit] of bytes
 * @property {AbortSignal} [signal]
 * @property {string} [code] of the error where it cannot be read
 * @property {string} [advice] in that
 * @property {OnBytes} [onBytes] of `piecesAt`
 */

/** What is read at once from a disk, by Node. */
const PIECE_BYTES = 2 ** 20;
const ADVICE =
  'copy it beside the scripts, or say where it is: load({baseUrl}), or load({weights}) with a URL or bytes';

/**
 * The bytes of a file, or those given instead.
 * @param {any} source @param {Reading} reading @returns {Promise<any>}
 */
export async function bytesAt(source, reading) {
  // A File, Blob or Response.
  if (typeof source?.arrayBuffer === 'function') return source.arrayBuffer();
  if (!isAddress(source)) return source;
  try {
    const { signal } = reading;
    const files = nodeFiles(source);
    if (files) return await files.promises.readFile(new URL(source), { signal });
    return await (await responseAt(source, reading)).arrayBuffer();
  } catch (error) {
    return refuse(source, error, reading);
  }
}

/**
 * The same in pieces, as they come.
 * @param {any} source @param {Reading} reading @returns {Pieces}
 */
export async function* piecesAt(source, reading) {
  let done = 0;
  try {
    const { size, pieces } = await openPieces(source, reading);
    for await (const piece of pieces) {
      done += piece.length;
      // The size may be unknown, or that of compressed bytes: then more come.
      reading.onBytes?.(done, Math.max(done, size));
      yield piece;
    }
  } catch (error) {
    refuse(source, error, reading);
  }
}

/**
 * @param {any} source @param {Reading} reading
 * @returns {Promise<{size: number, pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>}>}
 */
async function openPieces(source, reading) {
  const { signal } = reading;
  const files = nodeFiles(source);
  if (files) {
    const { size } = await files.promises.stat(new URL(source));
    const options = { signal, highWaterMark: PIECE_BYTES };
    return { size, pieces: files.createReadStream(new URL(source), options) };
  }
  const file = isAddress(source) ? await responseAt(source, reading) : source;
  if (typeof file.arrayBuffer !== 'function')
    return { size: file.byteLength, pieces: [bytesOf(file)] };
  const size = file.size ?? Number(file.headers.get('content-length'));
  return { size, pieces: piecesOfStream(file.stream?.() ?? file.body) };
}

/** Streams are no iterators in all browsers. @param {ReadableStream<Uint8Array>} stream */
async function* piecesOfStream(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // What is left of a file that is refused need not come.
    reader.cancel().catch(() => {});
  }
}

/** @param {any} source */
export function isAddress(source) {
  return typeof source === 'string' || source instanceof URL;
}

/** For an address that Node does not fetch: node:fs. @param {any} source */
function nodeFiles(source) {
  const { process } = /** @type {any} */ (globalThis);
  const isOnDisk = isAddress(source) && `${source}`.startsWith('file:');
  return isOnDisk && process?.getBuiltinModule?.('node:fs');
}

/** @param {any} source @param {Reading} reading */
async function responseAt(source, { signal, limit = Infinity }) {
  const response = await fetch(source, { signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  // What some servers send for any address that they do not know.
  if (response.headers.get('content-type')?.startsWith('text/html'))
    throw new Error('the server sent a page instead');
  if (Number(response.headers.get('content-length')) > limit) throw new Error('it is too large');
  return response;
}

/** @param {any} source @param {unknown} error @param {Reading} reading @returns {never} */
function refuse(source, error, { signal, code = 'weights', advice = ADVICE }) {
  signal?.throwIfAborted();
  if (!isAddress(source)) fail(code, source?.name ?? '', `the file cannot be read (${error})`);
  // Where vite serves a file from outside its folder.
  const todo = `${source}`.includes('/@fs/')
    ? 'let vite serve its folder: server.fs.allow in vite.config.js'
    : advice;
  return fail(code, `${source}`, `cannot be read (${error}): ${todo}`);
}
