// WebGPU's default limits, which every browser grants, and those that a plan requires.

import LIMITS from '../../runtime_py/wgcc_runtime/tables/webgpu_limits.json' with { type: 'json' };
import { fail } from '../core/errors.js';

/** @import { Plan } from '../core/plan.js' */

/** @type {Record<string, number>} */
export const DEFAULT_LIMITS = LIMITS;

/** What a device for the plan is asked for. @param {Plan} plan @param {string} limit */
export function limitOf({ requires }, limit) {
  return Math.max(DEFAULT_LIMITS[limit], requires.limits[limit] ?? 0);
}

/** @param {Plan} plan @param {string} field @param {string} limit @param {number} value */
export function checkLimit(plan, field, limit, value) {
  if (value > limitOf(plan, limit)) fail('limit', field, `needs ${limit} = ${value}`);
}
