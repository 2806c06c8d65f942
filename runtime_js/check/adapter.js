// Errors for a machine that lacks something the bundle needs.

import { fail } from '../core/errors.js';
import { adviceWithoutAdapter, adviceWithoutWebGpu, surroundings } from './browsers.js';

/** @import { Plan, Profiles } from '../core/plan.js' */

/** @param {Plan} plan @returns {never} */
export function refuseMemory({ memory }) {
  const text = `is below the ${memory.peak} bytes that the bundle takes: load({maxBytes}) raises it`;
  return fail('memory', 'maxBytes', text);
}

/**
 * @param {Plan} plan @param {any} [gpu] @param {any} [adapter] what it gave
 * @returns {never}
 */
export function refuseAdapter({ requires, twin, no_twin }, gpu, adapter) {
  const at = surroundings();
  const without = no_twin
    ? `a twin would need no WebGPU, but there is none: ${no_twin}`
    : 'a bundle built without --no-twin needs no WebGPU';
  const other = twin ? "load({device: 'wasm'}) needs no WebGPU" : without;
  if (!gpu) fail('no-webgpu', '', `${adviceWithoutWebGpu(at)}. Or: ${other}`);
  if (!adapter) fail('no-adapter', '', `${adviceWithoutAdapter(at)}. Or: ${other}`);
  for (const feature of requires.features)
    if (!adapter.features.has(feature))
      fail('feature', feature, 'is not in this adapter; shader-f16: build with `precision = f32`');
  const [limit, wanted] = /** @type {[string, number]} */ (
    Object.entries(requires.limits).find(([name, value]) => !(adapter.limits[name] >= value))
  );
  return fail('limit', limit, `is ${adapter.limits[limit]} here, not ${wanted}. ${other}`);
}

/** @param {string} device that was asked for by name @param {Plan} plan @returns {never} */
export function refuseDevice(device, { no_twin: why = 'build it again, without --no-twin' }) {
  const text =
    device === 'wasm'
      ? `is wasm, but the bundle has no twin: ${why}`
      : `is webgpu, wasm, or a GPU, adapter or device, not ${device}`;
  return fail('name', 'device', text);
}

/** @param {string} profile @param {Profiles} profiles @returns {never} */
export function refuseProfile(profile, profiles) {
  return fail('name', `${profile}`, `is not a profile; there are: ${Object.keys(profiles)}`);
}
