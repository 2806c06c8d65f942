// The internal state of a loaded bundle: its values on the GPU, the progress of training, and a
// queue that runs one job at a time. model.js shows callers a part of it; other modules work on it.

import { batchOf } from './batches.js';
import { classNames } from './class_names.js';
import { DEFAULT_PROFILE, findAdapter, openDevice, tunedName } from './device.js';
import { WgccError } from './errors.js';
import { Waiter } from './gpu_errors.js';
import { Guard } from './guard.js';
import { Machine } from './machine.js';
import { loadCalls, loadCheck, loadInspect, loadTwin } from './parts.js';
import { WORD_BYTES, wordCount } from './plan.js';
import { filterRecord, mapRecord, ownOf } from './records.js';
import { Runner } from './runner.js';
import { readKernels } from './seal.js';
import { leaveWords } from './spare_words.js';

/** @import { NamedWords, Values, Words } from './arrays.js' */
/** @import { Candidate, Device } from './device.js' */
/** @import { Bundle, LoadOptions } from './loader.js' */
/** @import { Plan, Profiles, Tensor, Tensors } from './plan.js' */
/** @import { StartValues } from './values.js' */
/**
 * @typedef {object} Progress of training
 * @property {Record<string, number>} steps calls per training entry
 * @property {number} position batches taken
 * @property {number} seed of the shuffle
 */

/** Values are copied from and to the device in pieces of at most this size. */
const PIECE_BYTES = 2 ** 24;

/** The first place where the next tensor may begin. @param {Tensor} tensor */
const endOf = tensor => tensor.offset + wordCount(tensor) * WORD_BYTES;

/** @returns {Progress} */
export const noProgress = () => ({ steps: {}, position: 0, seed: 0 });

export class Session {
  /** Whether training steps that give a NaN are undone and rejected. */
  checkFinite = true;
  progress = noProgress();
  /** Whether values were given, in place of the bundle's. */
  hasOtherValues = false;
  /**
   * How raw rows become inputs, and outputs what people read: see data/apply.js.
   * @type {any}
   */
  preparation = null;
  /**
   * What `recover` restores.
   * @type {{words: NamedWords, progress: Progress, takenAt: number}}
   */
  snapshot = { words: {}, progress: noProgress(), takenAt: 0 };
  /** Set by `connect`. */
  machine = /** @type {Machine} */ (/** @type {unknown} */ (undefined));
  profileName = '';
  /**
   * Entries whose last call ended well, the latest last, with what its parts are joined to: see
   * calls/captured.js.
   * @type {Map<string, Record<string, any> | undefined>}
   */
  captures = new Map();
  /** The `fit` that runs. @type {{options: {signal?: AbortSignal}} | undefined} */
  training;
  /** Undoes the half of a step: see calls/halves.js. @type {(() => Promise<void>) | undefined} */
  dropHalf;
  /** Of the machine that is there, or being made. */
  #waiter = new Waiter();
  /** By entry, and whether values must be finite. @type {Map<string, Guard>} */
  #guards = new Map();
  /** The last job, over or not. @type {Promise<unknown>} */
  #lastJob = Promise.resolve();
  /** @type {WgccError | undefined} */
  #closed;
  /** Their texts, once WebGPU needs them. @type {Promise<Record<string, string>> | undefined} */
  #kernels;

  /**
   * @param {Bundle} bundle that is sound @param {LoadOptions} options @param {StartValues} values
   */
  constructor(bundle, options, values) {
    /** @type {Plan} */
    this.plan = bundle.plan;
    this.bundle = bundle;
    this.options = options;
    this.values = values;
    this.hasOtherValues = Boolean(options.weights ?? values.stored.preparation);
    this.preparation = values.stored.preparation ?? bundle.preparation ?? null;
    /** Those of the plan, and what tuning finds. @type {Profiles} */
    this.profiles = { [DEFAULT_PROFILE]: {}, ...bundle.plan.profiles };
  }

  /**
   * One job at a time on the GPU.
   * @template T @param {() => Promise<T>} job
   * @param {boolean} [keepsHalf] whether it continues a step that is half done
   * @returns {Promise<T>}
   */
  locked(job, keepsHalf) {
    const result = this.#lastJob.then(async () => {
      if (this.#closed) throw this.#closed;
      if (!keepsHalf) await this.dropHalf?.();
      return job();
    });
    this.#lastJob = result.catch(() => {});
    return result;
  }

  // ---- the device

  /**
   * Opens a device and puts the bundle on it.
   * @param {any} choice 'webgpu', 'wasm', or a GPU, adapter or device
   */
  async connect(choice) {
    this.#waiter = new Waiter();
    this.machine = await this.#open(choice, this.#waiter);
    this.values.stored.again?.forget();
    this.#guards.clear();
    this.captures.clear();
  }

  /**
   * Where nothing was chosen: a GPU, else the twin, else a software adapter.
   * @param {any} choice @param {Waiter} waiter @returns {Promise<Machine>}
   */
  async #open(choice, waiter) {
    const { bundle, options, plan } = this;
    const openTwin = async () => (await loadTwin()).openTwin(bundle, options, waiter);
    if (choice === 'wasm' && plan.twin) return openTwin();
    if (typeof choice === 'string' && choice !== 'webgpu')
      (await loadCheck()).refuseDevice(choice, plan);
    // A profile names kernels for WebGPU.
    const needsKernels = choice || !plan.twin || options.profile;
    if (needsKernels) await this.#readKernels();
    const candidate = await findAdapter(choice === 'webgpu' ? undefined : choice, plan);
    const isGpu = candidate.isSuited && !candidate.isSoftware;
    if (needsKernels || isGpu) return this.#openGpu(candidate, waiter);
    return openTwin().catch(error => {
      // Some pages may not compile WebAssembly.
      if (error.code === 'gpu' && candidate.isSuited) return this.#openGpu(candidate, waiter);
      throw error;
    });
  }

  #readKernels() {
    this.#kernels ??= readKernels(this.bundle);
    return this.#kernels;
  }

  /** @param {Candidate} candidate @param {Waiter} waiter */
  async #openGpu(candidate, waiter) {
    const texts = await this.#readKernels();
    const device = await openDevice(candidate, this.plan, waiter, this.options.subgroups);
    const machine = new Machine(device, waiter, this.plan);
    try {
      const kernels = device.subgroups
        ? await (await loadInspect()).kernelsFor(machine, texts)
        : texts;
      this.profileName = await this.#chooseProfile(device);
      machine.adapter.profile = this.profileName;
      await machine.prepare(this.profiles[this.profileName], kernels, (done, total) =>
        this.options.onProgress?.({ stage: 'kernels', done, total }),
      );
      return machine;
    } catch (error) {
      machine.dispose();
      throw error;
    }
  }

  /** The one used before, requested or tuned; else the default. @param {Device} device */
  async #chooseProfile(device) {
    const { options, profiles } = this;
    const tuned = tunedName(device.name);
    if (options.tune && !Object.hasOwn(profiles, tuned)) {
      const { tune } = await loadInspect();
      profiles[tuned] = await tune(this.bundle, options, device, tuned);
    }
    const best = Object.hasOwn(profiles, tuned) ? tuned : DEFAULT_PROFILE;
    const profileName = this.profileName || (options.profile ?? best);
    if (!Object.hasOwn(profiles, profileName))
      (await loadCheck()).refuseProfile(profileName, profiles);
    return profileName;
  }

  /**
   * After a lost device: opens a new one and restores the last snapshot.
   * @param {any} [choice] a new one, where the first was not the browser's
   * @returns {Promise<{steps: Record<string, number>, lost: Record<string, number>}>} by training
   *   entry: those made now, and those made after the snapshot
   */
  async recover(choice) {
    const { device } = this.options;
    const canReopen = typeof device === 'string' || device?.requestAdapter;
    if (this.machine.waiter.failure) await this.connect(choice ?? (canReopen ? device : undefined));
    const { words, progress } = this.snapshot;
    const { steps } = progress;
    const lost = mapRecord(this.progress.steps, (made, name) => made - (ownOf(steps, name) ?? 0));
    const { stored, constants } = this.values;
    // Snapshots of large models leave out what starts anew.
    const start = stored.again ? await this.values.words() : { ...constants };
    await this.writeAll(start, progress, words);
    return { steps: { ...steps }, lost };
  }

  /** Frees the GPU memory, and ends all waits for the GPU. */
  dispose() {
    this.#closed = new WgccError('closed', 'the model was disposed');
    this.#waiter.stop(this.#closed);
    this.machine?.waiter.stop(this.#closed);
    this.machine?.dispose();
  }

  get classes() {
    return classNames(this.preparation);
  }

  // ---- values

  /**
   * Parameters and state as words.
   * @param {(tensor: Tensor, name: string) => boolean} [isWanted]
   * @returns {Promise<NamedWords>}
   */
  async readAll(isWanted = () => true) {
    const wanted = filterRecord(this.values.tensors, isWanted);
    const found = mapRecord(wanted, tensor => new Uint32Array(wordCount(tensor)));
    await this.readPieces(wanted, (name, words, at) => found[name].set(words, at));
    return found;
  }

  /**
   * Reads tensors in pieces, so that the host has no second copy of a large model. Buffer by buffer,
   * because one long copy is faster than many short ones.
   * @param {Tensors} tensors
   * @param {(name: string, words: Words, at: number) => unknown} take is called with a piece of a
   *   tensor, and which word of it is the first; pieces of one tensor come in order
   */
  async readPieces(tensors, take) {
    for (const buffer of this.machine.buffers.keys()) {
      const inside = Object.entries(tensors).filter(([, tensor]) => tensor.buffer === buffer);
      const begin = Math.min(...inside.map(([, { offset }]) => offset));
      const end = Math.max(...inside.map(([, tensor]) => endOf(tensor)));
      for (let start = begin; start < end; start += PIECE_BYTES) {
        const words = await this.machine.read(buffer, start, Math.min(PIECE_BYTES, end - start));
        for (const [name, tensor] of inside) {
          const first = (tensor.offset - start) / WORD_BYTES;
          const piece = words.subarray(Math.max(first, 0), Math.max(first + wordCount(tensor), 0));
          if (piece.length) await take(name, piece, Math.max(-first, 0));
        }
      }
    }
  }

  /**
   * @param {NamedWords} start @param {Progress} [progress] of training with these values, where
   *   `start` is what `values` gave, and is left empty @param {NamedWords} [others] in its place
   */
  async writeAll(start, progress, others = {}) {
    const words = { ...start, ...others };
    const { again } = this.values.stored;
    if (progress) again?.settle(others);
    const kept = filterRecord(words, (_, name) => this.#isKept(name));
    let waiting = 0;
    for (const name of Object.keys(words)) {
      const list = words[name];
      delete words[name];
      if (progress) delete start[name];
      for (let at = 0; at < list.byteLength; at += PIECE_BYTES) {
        const piece = list.subarray(at / WORD_BYTES, (at + PIECE_BYTES) / WORD_BYTES);
        this.machine.write(this.plan.tensors[name], piece, at);
        waiting += piece.byteLength;
        // What the device has not taken yet is on the host a second time.
        if (waiting < PIECE_BYTES) continue;
        await this.machine.finish();
        waiting = 0;
      }
      if (progress) again?.drop(name, list);
    }
    await this.machine.finish();
    if (!progress) return;
    this.progress = progress;
    this.#remember(kept);
  }

  /**
   * Resets to initial values and no steps.
   * @param {number | null} [seed] draws other initial values
   * @param {boolean} [own] as the bundle was built
   */
  async reset(seed, own) {
    const words = await (own ? this.values.ownWords() : this.values.words(seed));
    await this.writeAll(words, noProgress());
    this.hasOtherValues = Boolean(this.options.weights && !own);
  }

  /** Keeps a copy of everything on the host, for `recover`. */
  async takeSnapshot() {
    this.#remember(await this.readAll((_, name) => this.#isKept(name)));
  }

  /** @param {NamedWords} words */
  #remember(words) {
    const progress = structuredClone(this.progress);
    this.snapshot = { words, progress, takenAt: performance.now() };
  }

  /** Whether snapshots hold a tensor. @param {string} name */
  #isKept(name) {
    return !this.values.stored.again?.isLeftOut(name);
  }

  // ---- entries

  /** Training steps that an entry has made. @param {string} entryName */
  stepsOf(entryName) {
    return ownOf(this.progress.steps, entryName) ?? 0;
  }

  /**
   * Runs an entry: typed arrays (or numbers) in, typed arrays out.
   * @param {string} entryName @param {any} inputs @returns {Promise<Record<string, Values>>}
   */
  async call(entryName, inputs) {
    const batch = batchOf(this.plan, entryName, inputs);
    if (!batch) return (await loadCalls()).runRows(this, entryName, inputs);
    return this.locked(async () => {
      const { outputs, training } = this.plan.entries[entryName];
      const [result] = await this.run(entryName, [batch], Object.keys(outputs));
      leaveWords([batch]);
      if (training) this.progress.steps[entryName] = this.stepsOf(entryName) + 1;
      return result;
    });
  }

  /**
   * One submit: a call per batch, in order; the outputs of each. If a call gives a value that is not
   * finite, or an index out of range, it and those after it are undone, and this throws.
   * @param {string} entryName @param {NamedWords[]} batches @param {string[]} ports outputs to read
   * @param {(calls: number) => void} [onKept] is called with the number of calls before
   *   that one, which count
   * @returns {Promise<Record<string, Values>[]>}
   */
  async run(entryName, batches, ports, onKept) {
    await this.machine.compile([entryName]);
    const guard = await this.guardOf(entryName);
    const runner = new Runner(this.machine, entryName, ports, guard);
    this.captures.delete(entryName);
    const outcome = await runner.run(batches);
    if (guard && outcome.isBad) {
      await guard.restore();
      const { blameCalls } = await loadInspect();
      await blameCalls(this, entryName, batches, guard, outcome, onKept);
    }
    if (this.plan.entries[entryName].captures) this.captures.set(entryName, undefined);
    return outcome.results;
  }

  /**
   * Made once, because it takes memory; undefined if nothing is checked.
   * @param {string} entryName
   */
  async guardOf(entryName) {
    const { training, range_guard: rangeGuard } = this.plan.entries[entryName];
    const checksFinite = training && this.checkFinite;
    if (!checksFinite && !rangeGuard) return undefined;
    const key = `${entryName} ${checksFinite}`;
    const guard =
      this.#guards.get(key) ?? (await Guard.make(this.machine, entryName, checksFinite));
    this.#guards.set(key, guard);
    return guard;
  }
}
