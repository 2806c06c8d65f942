// The bundle beside this page: what bundle.js is for a page that is one file.
import { load, plan } from '../index.js';
import { kernels } from '../kernels.js';
import * as wgcc_js from '../wgcc.js';
import * as data_js from './data.js';
import * as draw_js from './draw.js';
import * as files_js from './files.js';

const isServed = true;
/** Fetches what training needs, so that it works after the network is gone. */
const fetchParts = () => {
  for (const name of __PARTS__) import(`./${name}.js`).catch(() => {});
};
const besides = async name => fetch(new URL(`../${name}`, import.meta.url));
const bytesOf = async name => new Uint8Array(await (await besides(name)).arrayBuffer());
const source = await (await besides('__SOURCE__')).text();
const files = __FILES__;
const trained = undefined;
// The scripts beside this page load them.
const filesBeside = [];
const decoded = text => text && wgcc_js.decodeBase64(text);
