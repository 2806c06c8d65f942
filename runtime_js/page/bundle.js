// The bundle inside this page: what served_bundle.js is for a page whose bundle is beside it.

import { open } from '../core/loader.js';
import { decodeBase64 } from '../core/seal.js';

/**
 * @typedef {{name: string, size: number, chosen?: File}} FileBeside a large file beside the page and,
 *   once a person chose it, itself
 */

/** @param {string | undefined} text in base 64 */
export const decoded = text => text && decodeBase64(text);

export const isServed = false;
/** All parts are in this page. */
export const fetchParts = () => {};
export const plan = __PLAN__;
export const kernels = __KERNELS__;
export const source = __SOURCE__;
/** The data that the page was built with, by file. */
export const files = __FILES__;
export const filesBeside = __FILES_BESIDE__;
/** The checkpoint of an exported page. */
export const trained = document.querySelector('script#trained')?.textContent?.trim() || undefined;

/** @param {string} name @param {string | undefined} inside */
const contentOf = (name, inside) => {
  const beside = filesBeside.find(file => file.name === name);
  return beside ? (beside.chosen ?? new URL(name, location.href)) : decoded(inside);
};

/** For `load({ worker: true })`: a page from a disk starts no worker from a file. */
const startWorker = () => {
  const text = `'use strict'; (${runtime})();`;
  const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  return new Worker(url, { name: 'wgcc' });
};

/** @param {Record<string, any>} [options] @returns {Promise<any>} */
export const load = options =>
  open(
    {
      plan,
      constants: __CONSTANTS__,
      preparation: __PREPARATION__,
      seal: __SEAL__,
      kernels: async () => kernels,
      weights: () => contentOf('weights.safetensors', __WEIGHTS__),
      tokens: __TOKENS__,
      tokenizer: () => contentOf('tokenizer.json', __TOKENIZER__),
      twin: () => decoded(__TWIN__),
      worker: startWorker,
    },
    options,
  );
