// The bundle beside this page: what bundle.js is for a page that is one file.

import { decodeBase64 } from '../core/seal.js';

/** A script of the bundle, seen from wgcc/page.js. @param {string} name */
const scriptOf = name => import(`../${name}.js`);
const scripts = await Promise.all([scriptOf('index'), scriptOf('kernels')]);

/** @typedef {{name: string, size: number, chosen?: File}} FileBeside */

export const isServed = true;
/** Fetches what training needs, so that it works after the network is gone. */
export const fetchParts = () => {
  for (const name of __PARTS__) scriptOf(`wgcc/${name}`).catch(() => {});
};
/** @type {typeof __PLAN__} */
export const plan = scripts[0].plan;
/** @type {typeof __KERNELS__} */
export const kernels = scripts[1].kernels;
/** @param {string} name */
const besides = name => fetch(new URL(`../${name}`, import.meta.url));
/** @param {string} name */
export const bytesOf = async name => new Uint8Array(await (await besides(name)).arrayBuffer());
export const source = await (await besides('__SOURCE__')).text();
/** The data that the page was built with, by file. */
export const files = __FILES__;
/** The scripts beside this page load them. @type {FileBeside[]} */
export const filesBeside = [];
/** @type {string | undefined} */
export const trained = undefined;
/** @param {string | undefined} text in base 64 */
export const decoded = text => text && decodeBase64(text);
/** @param {Record<string, any>} [options] @returns {Promise<any>} */
export const load = options => scripts[0].load(options);
