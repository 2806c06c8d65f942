// Finds an adapter, and opens a device with what the plan requires.

import { WgccError } from './errors.js';
import { loadCheck } from './parts.js';

/** @import { Waiter } from './gpu_errors.js' */
/** @import { Plan } from './plan.js' */
/**
 * @typedef {object} Device
 * @property {GPUDevice} gpu
 * @property {boolean} isOwn whether it was opened here, and is closed with the model
 * @property {string} name of the adapter
 * @property {boolean} subgroups whether kernels use its subgroup operations
 * @typedef {object} Candidate
 * @property {any} source a GPU, adapter or device, where there is one
 * @property {any} adapter or a device
 * @property {string} name
 * @property {boolean} isSoftware
 * @property {boolean} isSuited whether it is there, and has what the plan requires
 */

/** Requested if the adapter has them; no plan requires them. */
const SUBGROUPS = 'subgroups';
const OPTIONAL_FEATURES = [SUBGROUPS, 'timestamp-query'];
const SOFTWARE_ADAPTER = /llvmpipe|swiftshader|basic render/i;
export const DEFAULT_PROFILE = 'gpu';
/** The prefix of the name of a profile that tuning makes for an adapter. */
export const TUNED = 'tuned_';
/** The prefix of the names of profiles that tuning chooses from. */
export const CANDIDATE = 'candidate_';

/**
 * What a bundle could run on: nothing is opened yet.
 * @param {any} choice a GPU, adapter or device; default: the browser's
 * @param {Plan} plan @returns {Promise<Candidate>}
 */
export async function findAdapter(choice, plan) {
  const source = choice ?? globalThis.navigator?.gpu;
  const adapter = source?.requestAdapter
    ? await source.requestAdapter({ powerPreference: 'high-performance' })
    : source;
  const info = adapter?.info ?? adapter?.adapterInfo ?? {};
  const name = info.description || `${info.vendor} ${info.architecture}`;
  const isSoftware = info.isFallbackAdapter || SOFTWARE_ADAPTER.test(name + info.device);
  const isSuited = Boolean(adapter && hasRequired(adapter, plan));
  return { source, adapter, name, isSoftware, isSuited };
}

/**
 * @param {Candidate} candidate @param {Plan} plan @param {Waiter} waiter
 * @param {boolean} [mayUse] whether kernels may use subgroup operations @returns {Promise<Device>}
 */
export async function openDevice(candidate, plan, waiter, mayUse = true) {
  const { source, adapter, name, isSuited } = candidate;
  if (!isSuited) (await loadCheck()).refuseAdapter(plan, source, adapter);
  const gpu = adapter.requestDevice ? await requestDevice(adapter, plan, waiter) : adapter;
  watchLoss(gpu, waiter);
  return { gpu, isOwn: gpu !== source, name, subgroups: mayUse && gpu.features.has(SUBGROUPS) };
}

/** @param {GPUAdapter | GPUDevice} adapter @param {Plan} plan */
function hasRequired(adapter, { requires: { features, limits } }) {
  const granted = /** @type {Record<string, any>} */ (adapter.limits);
  return (
    features.every(feature => adapter.features.has(feature)) &&
    Object.keys(limits).every(limit => granted[limit] >= limits[limit])
  );
}

/** @param {GPUAdapter} adapter @param {Plan} plan @param {Waiter} waiter */
function requestDevice(adapter, { requires }, waiter) {
  const wanted = /** @type {GPUFeatureName[]} */ ([...requires.features, ...OPTIONAL_FEATURES]);
  const requiredFeatures = wanted.filter(feature => adapter.features.has(feature));
  return waiter.wait(adapter.requestDevice({ requiredFeatures, requiredLimits: requires.limits }));
}

/** @param {GPUDevice} gpu @param {Waiter} waiter */
async function watchLoss(gpu, waiter) {
  const { message, reason } = await gpu.lost;
  // A model that was disposed has destroyed its device itself.
  if (waiter.failure === undefined)
    waiter.stop(new WgccError('device-lost', `${message || reason}: call recover() to continue`));
}

/** The name of the profile that tuning makes for an adapter. @param {string} adapterName */
export function tunedName(adapterName) {
  return `${TUNED}${adapterName}`.replace(/\W+/g, '_').slice(0, 99);
}
