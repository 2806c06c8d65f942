// Compiles WGSL with Tint, the shader compiler of Chromium, at WebGPU's default limits.
//
//   node compile.mjs FOLDER FEATURE... < paths.json > results.json
//
// Kernels are compiled without an adapter, up to the point where a driver would compile them: what
// browsers accept is decided before, and a driver takes a thousand times as long. They may use
// these features of WebGPU.
//
// FOLDER is where the npm package `webgpu` is installed. Input: a JSON list of file paths; output:
// {path: [message, …]}, an empty list where Tint and pipeline creation accept the kernel.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.argv[2], 'resolve-from-here.js'));
const { create } = await import(pathToFileURL(require.resolve('webgpu')).href);
// Kept for the life of the process: if it is garbage-collected, the device is lost.
const requiredFeatures = process.argv.slice(3);
globalThis.dawn = create(['backend=null']);

async function problems(device, code) {
  const module = device.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  const errors = messages.filter(message => message.type === 'error');
  if (errors.length)
    return errors.map(error => `${error.lineNum}:${error.linePos} ${error.message}`);
  try {
    await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
    return [];
  } catch (error) {
    return [error.message];
  }
}

const adapter = await globalThis.dawn.requestAdapter();
if (!adapter) throw new Error('Dawn found no WebGPU adapter');
const device = await adapter.requestDevice({ requiredFeatures });
device.addEventListener('uncapturederror', event => event.preventDefault());
const results = {};
for (const path of JSON.parse(readFileSync(0, 'utf8'))) {
  device.pushErrorScope('validation');
  results[path] = await problems(device, readFileSync(path, 'utf8'));
  await device.popErrorScope();
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
