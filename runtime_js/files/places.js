// Where the files of a bundle are: beside index.js, unless a web bundler moved the scripts.

import { fail } from '../core/errors.js';

/** @import { Bundle } from '../core/loader.js' */

const WEIGHTS = 'weights.safetensors';

/** A file's URL, or its bytes. @param {(() => any) | undefined} place that index.js gives */
export function placeOf(place) {
  try {
    return place?.();
  } catch {
    // Scripts that are no modules have no `import.meta.url`.
    const advice = `load({baseUrl}) is the address of the folder that has twin.wasm and ${WEIGHTS}`;
    return fail(
      'bundle',
      'baseUrl',
      `is missing, because these scripts are not modules: ${advice}`,
    );
  }
}

/**
 * A bundle whose files are in another folder than its scripts.
 * @param {Bundle} bundle @param {any} baseUrl of the folder @returns {Bundle}
 */
export function bundleAt(bundle, baseUrl) {
  const { tokenizer, twin, weights } = bundle;
  const folder = folderOf(baseUrl);
  return {
    ...bundle,
    tokenizer: tokenizer && (() => new URL('tokenizer.json', folder)),
    twin: twin && (() => new URL('twin.wasm', folder)),
    weights: weights && (() => new URL(WEIGHTS, folder)),
    worker: bundle.worker && (() => startedWorker(bundle, folder)),
  };
}

/**
 * A web bundler may have made a script of the worker; else it is in the folder, too.
 * @param {Bundle} bundle @param {URL} folder @returns {Worker}
 */
function startedWorker({ worker }, folder) {
  try {
    return /** @type {() => Worker} */ (worker)();
  } catch {
    return new Worker(new URL('wgcc/serve.js', folder), { type: 'module', name: 'wgcc' });
  }
}

/** @param {any} baseUrl relative to the page @returns {URL} */
function folderOf(baseUrl) {
  const { document, location } = /** @type {any} */ (globalThis);
  try {
    return new URL(`${baseUrl}`.replace(/\/?$/, '/'), document?.baseURI ?? location?.href);
  } catch {
    return fail('name', 'baseUrl', `is the address of a folder, not ${baseUrl}`);
  }
}
