// The bundle beside this page: what bundle.js is for a page that is one file.

import { load, plan } from '../index.js';
import { kernels } from '../kernels.js';
import * as wgcc_js from '../wgcc.js';
import * as data_js from './data.js';
import * as draw_js from './draw.js';
import * as files_js from './files.js';

const isServed = true;
const source = await (await fetch(new URL('../__SOURCE__', import.meta.url))).text();
const files = {};
const trained = undefined;
const decoded = text => text && wgcc_js.decodeBase64(text);
