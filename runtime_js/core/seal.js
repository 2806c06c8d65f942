// The seal of a bundle: by it a page recognises what the compiler wrote and checked, and need not
// check it again. Anything that was changed since is checked by check/ and files/.

import { wholeWords } from './arrays.js';
import { loadCheck, part } from './parts.js';
import { mapRecord } from './records.js';

/** @import { NamedWords } from './arrays.js' */
/** @import { Bundle } from './loader.js' */

/** Whether plan and constants are those the compiler wrote. @param {Bundle} bundle */
export function isBundleSealed({ plan, constants, seal }) {
  return isTextSealed([1, plan, constants], seal?.bundle);
}

/** The kernels' texts by file, checked unless sealed. @param {Bundle} bundle */
export async function readKernels({ plan, kernels, seal }) {
  const texts = await part(kernels());
  if (!(await isTextSealed(texts, seal?.kernels)))
    await (await loadCheck()).checkKernelTexts(plan, texts);
  return texts;
}

/** @param {any} value @param {string} [digest] of its text */
function isTextSealed(value, digest) {
  return isSealed(new TextEncoder().encode(JSON.stringify(value)), digest);
}

/** @param {BufferSource} bytes */
export async function sha256Hex(bytes) {
  if (!crypto.subtle) return (await loadCheck()).sha256(bytes);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {BufferSource} bytes @param {string} [digest] in base 64 */
export async function isSealed(bytes, digest) {
  // On pages from http, browsers offer no digests.
  if (!crypto.subtle || !digest) return false;
  const found = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return btoa(String.fromCharCode(...found)) === digest;
}

/**
 * The tensors of a safetensors file that the compiler wrote, where each is as in memory.
 * @param {ArrayBuffer} file @returns {NamedWords}
 */
export function sealedTensors(file) {
  const [headerBytes] = new Uint32Array(file, 0, 1);
  const start = 8 + headerBytes;
  const header = JSON.parse(new TextDecoder().decode(file.slice(8, start)));
  return mapRecord(header, ({ data_offsets: [from, to] }) =>
    wholeWords(new Uint8Array(file, start + from, to - from)),
  );
}

/** @param {string} text in base 64 */
export function decodeBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  // Several times as fast as `Uint8Array.from` of the characters.
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
