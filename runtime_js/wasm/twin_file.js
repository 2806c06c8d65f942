// From the file of a twin to a compiled module: read, compared with its digest, made for shared
// memory where threads need that.

import { fail } from '../core/errors.js';
import { loadCheck, loadFiles } from '../core/parts.js';
import { sha256Hex } from '../core/seal.js';

/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Twin } from '../core/plan.js' */

/** How a WebAssembly module starts. */
const MAGIC = '0,97,115,109,1,0,0,0';
/** The limits of a memory in WebAssembly's binary format: least and most; the same, shared. */
const LIMITS = 0x01;
const SHARED_LIMITS = 0x03;
const MOST_BYTES = 2 ** 24;

/**
 * @param {Bundle} bundle @param {LoadOptions} options @param {boolean} isShared
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileTwin(bundle, { signal }, isShared) {
  /** @type {Twin} */
  const twin = bundle.plan.twin;
  const found = await readTwin(bundle.twin, signal);
  const code = new Uint8Array(found ?? fail('bundle', twin.file, 'is missing'));
  if (code.length > MOST_BYTES || (await sha256Hex(code)) !== twin.sha256)
    fail('bundle', twin.file, 'was changed after the bundle was built: build it again');
  // The plan of a sealed bundle has the digest of the compiler's own module.
  if (!bundle.isSealed) (await loadCheck()).checkTwinForm(code, bundle.plan);
  if (`${code.subarray(0, 8)}` !== MAGIC || code[twin.memory_flag] !== LIMITS)
    fail('bundle', twin.file, 'is not a module that wgcc writes: build it again');
  // In a copy, because the bytes belong to the bundle.
  const bytes = code.slice();
  if (isShared) bytes[twin.memory_flag] = SHARED_LIMITS;
  return WebAssembly.compile(bytes).catch(error => refuse(twin, error));
}

/**
 * Most pages need nothing but `fetch`; what it cannot read, files/ does, or says why not.
 * @param {(() => any) | undefined} place of the file @param {AbortSignal} [signal]
 * @returns {Promise<any>} its bytes
 */
async function readTwin(place, signal) {
  const fetched = await fetchTwin(place, signal);
  if (fetched) return fetched;
  const { bytesAt, placeOf } = await loadFiles();
  const advice = 'copy it beside the scripts, or say where it is: load({baseUrl})';
  return bytesAt(placeOf(place), { limit: MOST_BYTES, signal, code: 'bundle', advice });
}

/** @param {(() => any) | undefined} place @param {AbortSignal} [signal] */
async function fetchTwin(place, signal) {
  try {
    const source = place?.();
    const response = source?.protocol?.startsWith('http') && (await fetch(source, { signal }));
    // A page is what some servers send for any address that they do not know.
    const isPage = response?.headers?.get('content-type')?.startsWith('text/html');
    return response?.ok && !isPage ? await response.arrayBuffer() : undefined;
  } catch {
    // files/ says what is wrong.
  }
}

/** @param {Twin} twin @param {any} error @returns {never} */
function refuse({ file }, error) {
  const advice = "a content security policy must allow 'wasm-unsafe-eval'";
  return fail('gpu', file, `was refused: ${error.message} (${advice})`);
}
