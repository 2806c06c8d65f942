// The training loop: several steps per submit, reports, and recovery from a lost device.

import { DATA, openSource } from './batches.js';
import { loadCheck, loadFiles } from './parts.js';
import { inputTensors, isScalar, totalBytes } from './plan.js';
import { mapRecord } from './records.js';
import { leaveWords } from './spare_words.js';

/** @import { NamedWords } from './arrays.js' */
/** @import { Source } from './batches.js' */
/** @import { Session } from './session.js' */
/**
 * @typedef {{step: number, loss: number, outputs: Record<string, number>, ms: number}} Report
 * @typedef {object} FitOptions see index.d.ts of a bundle
 * @property {number} [steps] how many more; with `resume`, how many in all
 * @property {number} [every] steps between reports
 * @property {string} [entry]
 * @property {number} [seed] of the shuffle
 * @property {boolean} [resume] continue at the data position of a restored checkpoint
 * @property {AbortSignal} [signal]
 * @property {number} [snapshot] seconds between snapshots; 0: none
 * @property {boolean} [recover] after a lost device, continue with a new one
 */

// One submit aims at this much time, which keeps a page smooth, and has at most this much work.
const SUBMIT_MS = 40;
const SUBMIT_STEPS = 64;
const SUBMIT_BYTES = 2 ** 25;
const SUBMIT_DISPATCHES = 2000;
const SNAPSHOT_SECONDS = 15;

/**
 * Trains. `data`: an object of arrays (rows are shuffled by `seed`), an iterable of batches, or a
 * function of the step's number. Leave the loop, or abort `signal`, to stop.
 * @param {Session} session @param {any} data @param {FitOptions} [options]
 * @returns {AsyncGenerator<Report, void, void>}
 */
export async function* fit(session, data, options = {}) {
  const training = new Training(session, data, options);
  await training.begin();
  for (;;) {
    const batches = await training.nextBatches;
    if (!batches.length) return;
    options.signal?.throwIfAborted();
    const report = await training.submit(batches);
    if (report) yield report;
  }
}

/** One run of `fit`. */
class Training {
  /** Of the submit that follows; taken while the GPU works. @type {Promise<NamedWords[]>} */
  nextBatches = Promise.resolve([]);
  /** @type {Source} */
  #source = () => undefined;
  #stepsPerSubmit = 1;
  #lostAtStep = -1;
  #lastStep = Infinity;
  /** Outputs that are one number each. @type {string[]} */
  #watched = [];

  /** @param {Session} session @param {any} data @param {FitOptions} options */
  constructor(session, data, options) {
    const { entry = 'train', every = 10, seed = session.progress.seed } = options;
    this.session = session;
    this.data = data;
    this.options = options;
    this.entryName = entry;
    this.every = every;
    this.seed = seed;
  }

  /** Checks everything, and prepares the model for training. */
  async begin() {
    const { session, seed, options } = this;
    await this.#check();
    // So that the result can be saved even if the network is gone by then.
    loadFiles().catch(() => {});
    if (this.data?.[DATA]) session.preparation = this.data.preparation;
    session.progress.seed = seed;
    if (!options.resume) session.progress.position = 0;
    if (options.recover) session.snapshot.takenAt = -Infinity;
    this.#lastStep = (options.steps ?? Infinity) + (options.resume ? 0 : this.#step);
    await this.#openData();
  }

  async #check() {
    const { plan } = this.session;
    const { entryName, every, seed } = this;
    const { steps } = this.options;
    const entry = Object.hasOwn(plan.entries, entryName) ? plan.entries[entryName] : undefined;
    this.#watched = Object.entries(entry?.outputs ?? {})
      .filter(([, id]) => isScalar(plan.tensors[id]))
      .map(([port]) => port);
    const areCounts = [steps ?? 1, every].every(count => Number.isInteger(count) && count > 0);
    const isSeed = seed >>> 0 === seed;
    if (!entry?.training || !this.#watched.length || !areCounts || !isSeed)
      (await loadCheck()).refuseFit(plan, entryName, { steps, every, seed });
  }

  /** Steps made so far. */
  get #step() {
    return this.session.stepsOf(this.entryName);
  }

  async #openData() {
    const { plan, progress } = this.session;
    const hasEnd = this.options.steps != null;
    this.#source = await openSource(plan, this.entryName, this.data, progress, hasEnd);
    this.nextBatches = this.#take(this.#step);
  }

  /** The batches of the submit that follows `step` steps. @param {number} step */
  async #take(step) {
    const untilReport = this.every - (step % this.every);
    const count = Math.min(this.#stepsPerSubmit, untilReport, this.#lastStep - step);
    /** @type {NamedWords[]} */
    const batches = [];
    while (batches.length < count) {
      const batch = await this.#source();
      if (!batch) break;
      batches.push(batch);
    }
    return batches;
  }

  /** @param {NamedWords[]} batches @returns {Promise<Report | undefined>} where one is due */
  async submit(batches) {
    const { session, entryName } = this;
    try {
      // First, so that the times of steps have no compiling in them.
      await session.locked(() => session.machine.compile([entryName]));
      if (this.#isSnapshotDue()) await session.locked(() => session.takeSnapshot());
      return await this.#submit(batches);
    } catch (error) {
      if (!this.#canRecover(error)) throw error;
      this.#lostAtStep = this.#step;
      await session.locked(() => session.recover());
      await this.#openData();
    }
  }

  /** @param {NamedWords[]} batches @returns {Promise<Report | undefined>} */
  async #submit(batches) {
    const { session, entryName } = this;
    const started = performance.now();
    const count = batches.length;
    const running = session.locked(async () => {
      const onKept = (/** @type {number} */ calls) => this.#count(calls);
      const results = await session.run(entryName, batches, this.#watched, onKept);
      this.#count(count);
      leaveWords(batches);
      return results[count - 1];
    });
    this.nextBatches = this.#take(this.#step + count);
    // An error in the data is kept until the steps before it are done and counted.
    await Promise.allSettled([running, this.nextBatches]);
    const outputs = mapRecord(await running, ([number]) => number);
    const ms = (performance.now() - started) / count;
    this.#adapt(count, ms);
    const step = this.#step;
    if (step % this.every && step !== this.#lastStep) return;
    return { step, loss: outputs.loss ?? outputs[this.#watched[0]], outputs, ms };
  }

  /** @param {number} calls that were made and count */
  #count(calls) {
    const { progress } = this.session;
    progress.steps[this.entryName] = this.#step + calls;
    progress.position += calls;
  }

  /** @param {number} count of steps in the last submit @param {number} ms of each */
  #adapt(count, ms) {
    const { plan, machine } = this.session;
    const inputBytes = totalBytes(inputTensors(plan, this.entryName));
    const fitting = Math.min(
      SUBMIT_MS / ms,
      // Grows slowly: the time of the first steps says little.
      4 * count,
      SUBMIT_STEPS,
      SUBMIT_BYTES / (inputBytes + 1),
      SUBMIT_DISPATCHES / machine.commands[this.entryName].length,
    );
    this.#stepsPerSubmit = Math.max(1, Math.floor(fitting));
  }

  #isSnapshotDue() {
    const { snapshot: seconds = SNAPSHOT_SECONDS } = this.options;
    const waited = performance.now() - this.session.snapshot.takenAt;
    return waited >= 1000 * (seconds || Infinity);
  }

  /** @param {any} error */
  #canRecover(error) {
    // An iterator cannot be read again. Lost twice at one step: the step itself loses the device.
    const isRepeatable = !this.data?.next && this.#lostAtStep !== this.#step;
    return this.options.recover && error.code === 'device-lost' && isRepeatable;
  }
}
