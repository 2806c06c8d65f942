// WebGPU's default limits, which every browser grants, and those that a plan requires.

import { fail } from '../core/errors.js';

/** @import { Plan } from '../core/plan.js' */

/** @type {Record<string, number>} */
export const DEFAULT_LIMITS = {
  maxBindGroups: 4,
  maxBindingsPerBindGroup: 1000,
  maxBufferSize: 2 ** 28,
  maxStorageBufferBindingSize: 2 ** 27,
  maxStorageBuffersPerShaderStage: 8,
  maxUniformBuffersPerShaderStage: 12,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupsPerDimension: 65535,
  minStorageBufferOffsetAlignment: 256,
};

/** What a device for the plan is asked for. @param {Plan} plan @param {string} limit */
export function limitOf({ requires }, limit) {
  return Math.max(DEFAULT_LIMITS[limit], requires.limits[limit] ?? 0);
}

/** @param {Plan} plan @param {string} field @param {string} limit @param {number} value */
export function checkLimit(plan, field, limit, value) {
  if (value > limitOf(plan, limit)) fail('limit', field, `needs ${limit} = ${value}`);
}
