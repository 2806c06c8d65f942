// Checks the plan and the kernels of a bundle that may have been changed.

import PLAN_SCHEMA from '../../runtime_py/wgcc_runtime/plan.schema.json' with { type: 'json' };
import { fail } from '../core/errors.js';
import { sha256Hex } from '../core/seal.js';
import { refuseAdapter } from './adapter.js';
import { checkPlanDigest } from './plan_digest.js';
import { checkForm, refuse } from './schema.js';
import { validate } from './validate.js';
import { guardWgsl } from './wgsl_guard.js';

/** @import { Kernel, Plan } from '../core/plan.js' */

const FORMAT = 'wgcc-bundle';
const VERSION = 1;
const CHANGED = 'build it again, or run `wgcc accept` on it';
/** Lines that hold nothing but a comment: digests do not cover them. Mirrors bundle_files.py. */
const COMMENT_LINES = /(?<![^\n])[ \t]*\/\/[^\n\v\f\r\x85\u2028\u2029]*\n/g;

/** All of a bundle but its kernels and weights. @param {any} plan */
export function checkBundle(plan) {
  const sound = checkPlan(plan);
  // Last, so that a plan that cannot be right is refused for what is wrong with it.
  checkPlanDigest(plan);
  // On pages from http, browsers offer neither digests nor WebGPU.
  if (!crypto.subtle && !sound.twin) refuseAdapter(sound);
}

/** @param {Plan} plan that is sound @param {Record<string, string>} kernels */
export async function checkKernelTexts(plan, kernels) {
  await Promise.all(plan.kernels.map(kernel => checkKernel(kernel, kernels)));
}

/**
 * The plan, checked: a `WgccError` with code `plan`, `limit` or `version` names the first field
 * that is wrong.
 * @param {any} plan an object; a text is refused, because parsing it would hide repeated keys
 * @returns {Plan}
 */
export function checkPlan(plan) {
  if (plan?.format !== FORMAT) refuse('format', plan?.format);
  const { version, generator } = plan;
  if (Number.isInteger(version) && version !== VERSION) {
    const text = `is ${version}, by ${generator}; this runtime reads ${VERSION}: build the model again`;
    fail('version', 'version', text);
  }
  checkForm(plan, PLAN_SCHEMA, PLAN_SCHEMA);
  validate(plan);
  return plan;
}

/** @param {Kernel} kernel @param {Record<string, string>} kernels */
async function checkKernel({ file, sha256, subgroups }, kernels) {
  await checkWgsl(file, sha256, kernels);
  if (subgroups) await checkWgsl(`subgroups/${file}`, subgroups, kernels);
}

/** @param {string} file @param {string} sha256 @param {Record<string, string>} kernels */
async function checkWgsl(file, sha256, kernels) {
  const source = kernels[file] ?? fail('bundle', file, 'is missing');
  const code = source.replace(COMMENT_LINES, '');
  if ((await sha256Hex(new TextEncoder().encode(code))) !== sha256)
    fail('bundle', file, `was changed after the bundle was built: ${CHANGED}`);
  guardWgsl(source, file);
}
