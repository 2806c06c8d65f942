// Loads the parts of the runtime that most pages never need, when they are first needed.

import { WgccError } from './errors.js';

/** Explains what is wrong with a bundle, an argument or an adapter. */
export const loadCheck = () => part(import('../check/check.js'));
/** Weights other than the bundle's own, checkpoints. */
export const loadFiles = () => part(import('../files/files.js'));
/** Training. */
export const loadFit = () => part(import('../fit/fit.js'));
/** Initial values drawn from a seed. */
export const loadDraw = () => part(import('../draw/draw.js'));
/** The self-test, where a NaN came from, times per kernel, tuning. */
export const loadInspect = () => part(import('../inspect/inspect.js'));
/** Calls with unusual inputs or numbers of rows, and what is made of calls. */
export const loadCalls = () => part(import('../calls/calls.js'));
/** Reads people's files, and scales as they need it. */
export const loadData = () => part(import('../data/data.js'));
/** What a training started from, and digests of its weights. */
export const loadReceipts = () => part(import('../receipts/receipts.js'));
/** The model in a worker. */
export const loadWorker = () => part(import('../worker/worker.js'));
/** The WebAssembly twin. */
export const loadTwin = () => part(import('../wasm/wasm.js'));

/** @template T @param {Promise<T>} importing @returns {Promise<T>} */
export function part(importing) {
  return importing.catch(error => {
    const missing = new WgccError('bundle', `a part is missing: is the network gone? ${error}`);
    missing.field = 'bundle';
    throw missing;
  });
}
