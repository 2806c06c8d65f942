// Kernels in the languages that browsers make of WGSL: naga, which Firefox does it with, is fetched
// when somebody looks.

import { spirvText } from './spirv_text.js';

/** What is shown by name: the language that naga writes. */
export const LANGUAGES = new Map([
  ['WGSL', ''],
  ['Metal (MSL)', 'msl'],
  ['Direct3D (HLSL)', 'hlsl'],
  ['Vulkan (SPIR-V)', 'spirv'],
]);

/** @type {Promise<any> | null} */
let loaded = null;

async function loadNaga() {
  // The site has a script of that name, which holds the package, too.
  const naga = await import('./naga.js');
  await naga.init();
  return naga;
}

/** @param {string} code in WGSL @param {string} language @returns {Promise<string>} */
export async function translated(code, language) {
  if (!language) return code;
  loaded ??= loadNaga();
  const naga = await loaded.catch(error => {
    loaded = null;
    throw error;
  });
  const written = naga.translate({ from: 'wgsl', to: language, source: code });
  return typeof written === 'string' ? written : spirvText(written);
}
