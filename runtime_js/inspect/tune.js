// Loaded only by load({tune}): measures the bundle's kernels on this adapter, chooses the fastest
// for each dispatch, and stores the choice in the browser. `wgcc build --candidates` adds kernels
// to choose from.

import { CANDIDATE } from '../core/device.js';
import { open } from '../core/loader.js';
import { loadCheck, loadFiles } from '../core/parts.js';
import { mapRecord, ownOf } from '../core/records.js';

/** @import { Device } from '../core/device.js' */
/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Plan, Profile, Replacement } from '../core/plan.js' */
/** @typedef {Record<string, number[]>} Times milliseconds of each dispatch, by entry */

const SECONDS = 30;
/** A smaller gain is noise, and not worth another kernel. */
const WORTH = 0.95;

/**
 * The profile for this adapter: the stored one, else a new one from measurements.
 * @param {Bundle} bundle @param {LoadOptions} options @param {Device} device
 * @param {string} name of the profile
 * @returns {Promise<Profile>}
 */
export async function tune(bundle, options, device, name) {
  const key = storageKey(bundle.plan, name);
  const remembered = await recalled(bundle.plan, name, key);
  if (remembered) return remembered;
  const found = await new Tuning(bundle, options, device).run();
  const { inStorage } = await loadFiles();
  await inStorage('readwrite', store => store.put(found, key)).catch(() => {});
  return found;
}

/**
 * The same kernels on the same adapter: the same choice.
 * @param {Plan} plan @param {string} name
 */
function storageKey({ model, kernels }, name) {
  return `${name} ${model.name} ${kernels.map(({ sha256 }) => sha256).join('')}`;
}

/**
 * What was chosen before, if the browser still has it.
 * @param {Plan} plan @param {string} name @param {string} key
 * @returns {Promise<Profile | undefined>}
 */
async function recalled(plan, name, key) {
  try {
    const { inStorage } = await loadFiles();
    const profile = await inStorage('readonly', store => store.get(key));
    if (profile) (await loadCheck()).checkPlan({ ...plan, profiles: { [name]: profile } });
    return profile;
  } catch {
    // No storage here, or something else in it: it is measured again.
  }
}

class Tuning {
  /** @type {Times} */
  #least = {};
  /** @type {Profile} */
  #best = {};

  /** @param {Bundle} bundle @param {LoadOptions} options @param {Device} device */
  constructor(bundle, options, device) {
    const seconds = options.tune === true ? SECONDS : Number(options.tune);
    /** @type {Plan} */
    this.plan = bundle.plan;
    this.bundle = bundle;
    this.options = options;
    this.device = device;
    this.end = performance.now() + 1000 * seconds;
    this.first = this.#launches({});
    this.others = Object.entries(this.plan.profiles ?? {})
      .filter(([name]) => name.startsWith(CANDIDATE))
      .map(([, profile]) => profile);
  }

  /** The fastest launch of each dispatch, as a profile. */
  async run() {
    const { onProgress, signal } = this.options;
    const total = this.others.length;
    this.#best = structuredClone(this.first);
    this.#least = mapRecord(await this.#times(this.first), list => list.map(ms => WORTH * ms));
    for (const [done, profile] of this.others.entries()) {
      onProgress?.({ stage: 'tune', done, total });
      signal?.throwIfAborted();
      await this.#try(profile);
    }
    onProgress?.({ stage: 'tune', done: total, total });
    return this.#best;
  }

  /** Measures what a profile runs otherwise, where that may be faster. @param {Profile} profile */
  async #try(profile) {
    const trial = this.#launches(profile);
    const isNew = (/** @type {string} */ entry, /** @type {number} */ i) =>
      !isSame(trial[entry][i], this.first[entry][i]);
    const hasNew = Object.entries(trial).some(([entry, list]) =>
      list.some((_, i) => isNew(entry, i)),
    );
    if (performance.now() > this.end || !hasNew) return;
    for (const [entry, times] of Object.entries(await this.#times(trial)))
      times.forEach((ms, i) => {
        if (!isNew(entry, i) || ms >= this.#least[entry][i]) return;
        this.#least[entry][i] = ms;
        this.#best[entry][i] = trial[entry][i];
      });
  }

  /** What each dispatch runs under a profile. @param {Profile} profile @returns {Profile} */
  #launches(profile) {
    return mapRecord(this.plan.entries, ({ dispatches }, entry) => {
      const launches = dispatches.map(({ kernel, grid }, dispatch) => ({ dispatch, kernel, grid }));
      for (const replacement of ownOf(profile, entry) ?? [])
        launches[replacement.dispatch] = replacement;
      return launches;
    });
  }

  /** @param {Profile} profile @returns {Promise<Times>} */
  async #times(profile) {
    const trial = `${CANDIDATE}trial`;
    // Without the digest, which is of the plan with its own profiles.
    const { sha256: _, ...content } = this.plan;
    const plan = { ...content, profiles: { [trial]: profile } };
    const { maxBytes, subgroups } = this.options;
    const options = { device: this.device.gpu, maxBytes, subgroups, profile: trial };
    const model = await open({ ...this.bundle, plan }, options);
    try {
      /** @type {Times} */
      const times = {};
      for (const entry of Object.keys(plan.entries)) {
        const { rows } = await model.profile(entry, 2);
        times[entry] = rows.map((/** @type {{ms: number}} */ row) => row.ms);
      }
      return times;
    } finally {
      model.dispose();
    }
  }
}

/** @param {Replacement} one @param {Replacement} other */
function isSame(one, other) {
  return one.kernel === other.kernel && `${one.grid}` === `${other.grid}`;
}
