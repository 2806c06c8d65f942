// Loaded by load({tune}) alone: measures the kernels a bundle holds on this adapter, chooses the fastest for each
// dispatch, and keeps the choice in the browser. `wgcc build --candidates` gives a bundle more to choose from.

import { ownOf } from '../wgcc.js';
import { checkPlan } from './check.js';
import { stored } from './files.js';

/** @import { Bundle, Grid, Options, Plan } from '../wgcc.js' */
/** @typedef {{dispatch: number, kernel: number, grid: Grid}} Replacement */
/** @typedef {Record<string, Replacement[]>} Profile */

const SECONDS = 30;
// Less is noise, and not worth another kernel.
const WORTH = 0.95;

/** The same kernels on the same adapter: the same choice. @param {Plan} plan @param {string} name */
const keyOf = (plan, name) => `${name} ${plan.model.name} ${plan.kernels.map(kernel => kernel.sha256).join('')}`;

/**
 * What was chosen before, if the browser still has it. @param {Plan} plan @param {string} name
 * @returns {Promise<Profile | undefined>}
 */
async function recalled(plan, name) {
  try {
    const profile = await stored('readonly', store => store.get(keyOf(plan, name)));
    if (profile) checkPlan({ ...plan, profiles: { [name]: profile } });
    return profile;
  } catch {
    // No storage here, or something else in it: it is measured again.
  }
}

/** What each dispatch of an entry runs under a profile. @param {Plan} plan @param {string} key @param {Profile} [profile] */
function launches({ entries }, key, profile) {
  const found = entries[key].dispatches.map(({ kernel, grid }, dispatch) => ({ dispatch, kernel, grid }));
  for (const item of ownOf(profile, key) ?? []) found[item.dispatch] = item;
  return found;
}

/** @param {Replacement} a @param {Replacement} b */
const isSame = (a, b) => a.kernel == b.kernel && `${a.grid}` == `${b.grid}`;

/**
 * Milliseconds of each dispatch under a profile, by entry.
 * @param {(bundle: Bundle, options: Options) => Promise<any>} open @param {Bundle} bundle @param {Options} options
 * @param {Profile} profile @returns {Promise<Record<string, number[]>>}
 */
async function times(open, bundle, options, profile) {
  const model = await open({ ...bundle, plan: { ...bundle.plan, profiles: { trial: profile } } }, options);
  try {
    /** @type {Record<string, number[]>} */
    const found = {};
    for (const key in bundle.plan.entries)
      found[key] = (await model.profile(key, 2)).rows.map((/** @type {any} */ row) => row.ms);
    return found;
  } finally {
    model.dispose();
  }
}

/**
 * The profile for this very adapter: remembered, else measured. `now` is the profile that suits its kind.
 * @param {(bundle: Bundle, options: Options) => Promise<any>} open @param {Bundle} bundle @param {Options} options
 * @param {GPUDevice} device @param {string} name @param {string} now @param {number} subgroup
 */
export async function tune(open, bundle, options, device, name, now, subgroup) {
  const old = await recalled(bundle.plan, name);
  if (old) return old;
  const found = await measured(open, bundle, options, device, now, subgroup);
  await stored('readwrite', store => store.put(found, keyOf(bundle.plan, name))).catch(() => {});
  return found;
}

/**
 * The fastest launch of each dispatch, as a profile.
 * @param {(bundle: Bundle, options: Options) => Promise<any>} open @param {Bundle} bundle @param {Options} options
 * @param {GPUDevice} device @param {string} now @param {number} subgroup @returns {Promise<Profile>}
 */
async function measured(open, bundle, { tune, onProgress, signal, maxBytes }, device, now, subgroup) {
  const { plan, kernels } = bundle,
    end = performance.now() + 1e3 * (tune === true ? SECONDS : Number(tune)),
    quiet = { device, maxBytes, profile: 'trial' },
    profiles = Object.entries({ gpu: {}, ...plan.profiles }).filter(([other]) => other != now && !/^tuned_/.test(other)),
    of = (/** @type {Profile} */ profile) =>
      Object.fromEntries(Object.keys(plan.entries).map(key => [key, launches(plan, key, profile)]));
  // What cannot run here; and on a software adapter a barrier costs far more than sharing can save.
  const isHopeless = (/** @type {Replacement} */ { kernel }) =>
    (plan.kernels[kernel].subgroup ?? 0) > subgroup ||
    (now != 'gpu' && /workgroupBarrier/.test(kernels[plan.kernels[kernel].file]));
  /** @type {Profile} */
  const best = of(plan.profiles?.[now] ?? {}),
    first = structuredClone(best),
    least = await times(open, bundle, quiet, best);
  for (const key in least) least[key] = least[key].map(ms => WORTH * ms);
  for (const [i, [, profile]] of profiles.entries()) {
    onProgress?.({ stage: 'tune', done: i, total: profiles.length });
    signal?.throwIfAborted();
    const trial = of(/** @type {Profile} */ (profile)),
      isNew = (/** @type {string} */ key, /** @type {number} */ j) =>
        !isSame(trial[key][j], first[key][j]) && !isHopeless(trial[key][j]);
    for (const key in trial) trial[key] = trial[key].map((launch, j) => (isNew(key, j) ? launch : first[key][j]));
    if (performance.now() > end || !Object.keys(trial).some(key => trial[key].some((_, j) => isNew(key, j)))) continue;
    const found = await times(open, bundle, quiet, trial);
    for (const key in found)
      found[key].forEach((ms, j) => {
        if (!isSame(trial[key][j], first[key][j]) && ms < least[key][j]) {
          least[key][j] = ms;
          best[key][j] = trial[key][j];
        }
      });
  }
  onProgress?.({ stage: 'tune', done: profiles.length, total: profiles.length });
  return best;
}
