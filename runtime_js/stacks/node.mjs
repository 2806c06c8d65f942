// Runs a job on a bundle in Node: node node.mjs BUNDLE JOB FOLDER... < arguments.json > result.json
// Each FOLDER is a place where the npm package `webgpu` may be installed.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// Workgroup memory is cleared by a loop instead of by the driver: SwiftShader would write a store for
// each word, and take over a second to compile a matrix product.
const DAWN_FLAGS = ['disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension'];
const [bundle, job, ...folders] = process.argv.slice(2);
const given = JSON.parse(readFileSync(0, 'utf8'));
// The twin needs no WebGPU.
if (given.device !== 'wasm') await openDawn();
const file = path => import(pathToFileURL(resolve(path)).href);
try {
  const index = await file(join(bundle, 'index.js'));
  const inspect = () => file(join(bundle, 'wgcc', 'inspect.js'));
  const run = (await file(job)).default;
  const result = await run({ ...index, inspect, device: globalThis.dawn }, given);
  process.stdout.write(JSON.stringify({ result }), () => process.exit(0));
} catch (error) {
  fail(error.code, error.message);
}

async function openDawn() {
  const found = folders.map(locate).find(Boolean);
  if (!found) fail('no-webgpu', 'Node needs the npm package webgpu: npm install webgpu');
  const { create } = await import(found);
  // Kept for the life of the process: if it is garbage-collected, the device is lost.
  globalThis.dawn = create(DAWN_FLAGS);
}

function locate(folder) {
  try {
    return pathToFileURL(createRequire(join(resolve(folder), 'from-here.js')).resolve('webgpu'))
      .href;
  } catch {
    return null;
  }
}

function fail(code, message) {
  process.stdout.write(JSON.stringify({ code, message }), () => process.exit(0));
}
