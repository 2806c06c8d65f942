// Asks the compiler for a bundle: with WebAssembly only where the model does not run on a GPU, because
// writing that takes nearly half of a compilation.

import { findAdapter } from '../core/device.js';
import { $ } from '../page/elements.js';
import { ask } from './compiler.js';
import { bench } from './state.js';

/** @import { Built } from './state.js' */

/** What every GPU has. */
const NOTHING = { features: [], limits: {} };

/** The bundle of the open program, and the milliseconds that it took. @returns {Promise<{built: Built, ms: number}>} */
export async function build() {
  const mayLack = await runsOnGpu(NOTHING);
  const first = await askForBundle(!mayLack);
  if (!mayLack || (await runsOnGpu(first.built.plan.requires))) return first;
  const second = await askForBundle(true);
  return { built: second.built, ms: first.ms + second.ms };
}

/** @param {{features: string[], limits: Record<string, number>}} requires */
async function runsOnGpu(requires) {
  const { value } = $('device');
  if (value) return value === 'webgpu';
  const plan = /** @type {any} */ ({ requires });
  const { isSuited, isSoftware } = await findAdapter(undefined, plan).catch(() => NO_GPU);
  return isSuited && !isSoftware;
}

const NO_GPU = { isSuited: false, isSoftware: false };

/** @param {boolean} twin whether the bundle has its WebAssembly form */
async function askForBundle(twin) {
  const { files, program: main, capture, sizes } = bench;
  const settings = { files: { ...files }, main, capture, sizes, twin };
  const { answer, ms } = await ask('build', settings);
  if (answer.problem) throw new Error(answer.problem);
  const plan = JSON.parse(new TextDecoder().decode(answer.files['plan.json']));
  return { built: { ...answer, plan, settings }, ms };
}

/**
 * Asks about the last bundle. The compiler that made it is gone if something was cancelled since: then
 * it is made again. @param {string} question @param {any} [settings] @returns {Promise<any>}
 */
export async function askOfBundle(question, settings = {}) {
  try {
    return (await ask(question, settings)).answer;
  } catch (error) {
    const isGone = /** @type {Error} */ (error).message.includes('nothing was built yet');
    if (!isGone || !bench.built) throw error;
  }
  await ask('build', bench.built.settings);
  return (await ask(question, settings)).answer;
}
