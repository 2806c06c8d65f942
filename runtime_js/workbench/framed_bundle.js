// The bundle that the page around this frame has compiled: what bundle.js is for a page of its own.

import { open } from '../core/loader.js';
import { decodeBase64 } from '../core/seal.js';

/** @typedef {{name: string, size: number, chosen?: File}} FileBeside */

/** What the workbench sets before it opens the frame. @type {any} */
const given = /** @type {any} */ (window.parent).wgccBundle;

for (const heading of document.querySelectorAll('h1, title'))
  heading.textContent = given.plan.model.name;

// The workbench itself shares and takes away: this page has no file of its own.
for (const button of document.querySelectorAll('#export, #share'))
  button.toggleAttribute('hidden', true);

export const isServed = false;
/** All parts are fetched when they are needed. */
export const fetchParts = () => {};
/** @type {typeof __PLAN__} */
export const plan = given.plan;
/** @type {typeof __KERNELS__} */
export const kernels = given.kernels;
/** @type {string} */
export const source = given.source;
/** @type {Record<string, Uint8Array>} */
export const files = {};
/** @type {FileBeside[]} */
export const filesBeside = [];
/** @type {string | undefined} */
export const trained = undefined;
/** @param {string | undefined} text in base 64 */
export const decoded = text => text && decodeBase64(text);
/** @param {Record<string, any>} [options] @returns {Promise<any>} */
export const load = options =>
  open(
    {
      plan,
      constants: given.constants,
      kernels: async () => kernels,
      weights: () => undefined,
      tokens: () => import('../tokens/tokens.js'),
      tokenizer: () => given.tokenizer,
      twin: () => given.twin,
    },
    { ...options, ...given.options },
  );
