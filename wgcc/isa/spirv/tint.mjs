// Dawn translates kernels, under the layer that keeps their SPIR-V:
// node tint.mjs PACKAGE DUMPED OUT < {"NAME": "WGSL"}
// Writes OUT/NAME.spv, or OUT/NAME.txt with the error.
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [webgpu, dumped, out] = process.argv.slice(2);
const { create, globals } = createRequire(join(webgpu, 'package.json'))(webgpu);
Object.assign(globalThis, globals);
const LIMITS = [
  'maxBufferSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupStorageSize',
  'maxStorageBufferBindingSize',
  'maxStorageBuffersPerShaderStage',
];
const gpu = create(['backend=vulkan']);
const adapter = await gpu.requestAdapter();
if (!adapter) throw new Error('Dawn accepts no software adapter of this machine');
const features = ['shader-f16', 'subgroups'].filter(name => adapter.features.has(name));
const device = await adapter.requestDevice({
  requiredFeatures: features,
  requiredLimits: Object.fromEntries(LIMITS.map(name => [name, adapter.limits[name]])),
});
for (const [name, code] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  const before = new Set(readdirSync(dumped));
  const module = device.createShaderModule({ code });
  try {
    const compute = { module, entryPoint: 'main' };
    await device.createComputePipelineAsync({ layout: 'auto', compute });
  } catch (error) {
    const { messages } = await module.getCompilationInfo();
    writeFileSync(join(out, `${name}.txt`), messages[0]?.message ?? error.message);
    continue;
  }
  const made = readdirSync(dumped).filter(file => !before.has(file));
  renameSync(join(dumped, made.sort().at(-1)), join(out, `${name}.spv`));
}
process.exit(0);
