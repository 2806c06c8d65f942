// `open`: reads a bundle and makes a model on the GPU; all checks precede the first GPU call.

import { createModel } from './model.js';
import { loadCheck, loadFiles, loadInspect, loadTwin, loadWorker } from './parts.js';
import { isBundleSealed } from './seal.js';
import { Session } from './session.js';
import { StartValues } from './values.js';

/**
 * @typedef {object} Bundle what index.js of a bundle holds
 * @property {any} plan
 * @property {() => Promise<Record<string, string>>} kernels their texts by file
 * @property {() => any} [weights] where the safetensors file is, or its bytes
 * @property {() => Worker} [worker] starts one that runs serve/serve.js
 * @property {() => any} [twin] where twin.wasm is, or its bytes
 * @property {() => Promise<any>} [tokens] tokens/tokens.js, if the vocabulary is a file
 * @property {() => any} [tokenizer] where that file is, or its bytes
 * @property {string} [constants] a safetensors file in base 64
 * @property {any} [preparation] of the data it was built with
 * @property {{bundle: string, kernels: string, weights?: string}} [seal]
 * @property {boolean} [isSealed] set by `open`: whether plan and constants match the seal
 * @typedef {(done: number, total: number) => void} OnBytes
 * @typedef {{stage: string, done: number, total: number}} LoadProgress
 * @typedef {object} LoadOptions see index.d.ts of a bundle
 * @property {any} [device] 'webgpu', 'wasm', or a GPU, adapter or device
 * @property {number} [threads] of WebAssembly
 * @property {any} [weights]
 * @property {number} [seed]
 * @property {string} [profile]
 * @property {string[]} [entries] that are compiled at once
 * @property {AbortSignal} [signal]
 * @property {string | URL} [baseUrl] of the folder with weights and twin
 * @property {number} [maxBytes]
 * @property {boolean} [verify]
 * @property {boolean} [subgroups] false: kernels never use subgroup operations
 * @property {boolean | number} [tune]
 * @property {boolean} [worker]
 * @property {OnBytes} [onBytes] of weights, for the runtime itself
 * @property {(progress: LoadProgress) => void} [onProgress]
 */

/** What a bundle may allocate on the GPU unless the caller allows more. */
const MAX_BYTES = 2 ** 33;

/** Options of `load`. */
// biome-ignore format: as many as fit into a line
const OPTIONS = [
  'device', 'threads', 'weights', 'seed', 'profile', 'entries', 'baseUrl', 'maxBytes', 'verify',
  'tune', 'subgroups', 'signal', 'onProgress', 'worker',
];

/** @param {Bundle} given @param {LoadOptions} [options] @returns {Promise<any>} */
export async function open(given, options = {}) {
  const { signal, maxBytes = MAX_BYTES, entries = [] } = options;
  const { device = globalThis.navigator?.gpu ?? 'wasm' } = options;
  const { baseUrl } = options;
  if (!Object.keys(options).every(name => OPTIONS.includes(name)))
    (await loadCheck()).refuseLoad(options, OPTIONS);
  const bundle = baseUrl === undefined ? given : (await loadFiles()).bundleAt(given, baseUrl);
  if (options.worker) return (await loadWorker()).openInWorker(bundle, options);
  // It comes while the weights do.
  if (device === 'wasm' && bundle.plan?.twin) loadTwin().catch(() => {});
  const isSealed = await isBundleSealed(bundle);
  if (!isSealed) await (await loadCheck()).checkBundle(bundle.plan);
  if (bundle.plan.edited) console.warn('edited by hand:', bundle.plan.edited);
  if (bundle.plan.memory.peak > maxBytes) (await loadCheck()).refuseMemory(bundle.plan);
  if (!Array.isArray(entries) || !entries.every(name => Object.hasOwn(bundle.plan.entries, name)))
    (await loadCheck()).refuseEntries(bundle.plan, entries);
  let read = { done: -1, total: 0 };
  const onBytes = (/** @type {number} */ done, /** @type {number} */ total) => {
    // The end may be reported already.
    if (done !== read.done) options.onProgress?.({ stage: 'weights', done, total });
    read = { done, total };
  };
  const values = await StartValues.load(bundle, isSealed, { ...options, onBytes });
  onBytes(read.total, read.total);
  signal?.throwIfAborted();
  const session = new Session({ ...bundle, isSealed }, options, values);
  try {
    await session.connect(options.device);
    await session.machine.compile(entries);
    signal?.throwIfAborted();
    const model = createModel(session);
    values.onBytes = (done, total) => options.onProgress?.({ stage: 'values', done, total });
    await model.reset();
    values.onBytes = undefined;
    session.machine.signal = signal;
    if (options.verify) await (await loadInspect()).verify(model);
    session.machine.signal = undefined;
    return model;
  } catch (error) {
    session.dispose();
    throw error;
  }
}
