// The training loop: several steps per submit, reports, and recovery from a lost device.

import { DATA } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { loadCalls, loadCheck, loadFiles, loadReceipts } from '../core/parts.js';
import { isPauseDue, nextTask } from '../core/pause.js';
import { inputTensors, isScalar, totalBytes } from '../core/plan.js';
import { mapRecord, ownOf } from '../core/records.js';
import { leaveWords } from '../core/spare_words.js';
import { namesAlone } from './names_alone.js';
import { Pace } from './pace.js';
import { openSource } from './sources.js';

/** @import { NamedWords } from '../core/arrays.js' */
/** @import { Session } from '../core/session.js' */
/** @import { Replayed, Witness } from '../receipts/receipts.js' */
/** @import { Source } from './sources.js' */
/**
 * @typedef {Record<string, number>} Numbers
 * @typedef {object} Report
 * @property {number} step
 * @property {number} loss
 * @property {Numbers} outputs
 * @property {Numbers} [validation] where it was asked for and due
 * @property {number} ms of a step
 * @property {string} [receipt] so far, at steps where weights were hashed
 * @property {Replayed} [replay] so far, at steps that were compared
 * @typedef {object} Settings `FitOptions` in index.d.ts of a bundle
 * @property {number} [steps] how many more; with `resume`, how many in all
 * @property {number} [epochs] instead of `steps`: passes over the data
 * @property {number} [every] steps between reports
 * @property {string} [entry]
 * @property {number} [seed] of the shuffle
 * @property {boolean} [resume] continue at the data position of a restored checkpoint
 * @property {any} [validation] arrays, or a function
 * @property {string} [validationEntry]
 * @property {number} [validationEvery] steps
 * @property {AbortSignal} [signal]
 * @property {number} [snapshot] seconds between snapshots, of which the last is at the end; 0: none
 * @property {boolean} [recover] after a lost device, continue with a new one
 * @property {boolean | number} [receipt] keep one; a number: steps between digests
 * @property {string} [replay] the text of a receipt to compare with
 */

// What one submit has at most.
const SUBMIT_STEPS = 64;
const SUBMIT_BYTES = 2 ** 25;
const SUBMIT_DISPATCHES = 2000;
const SNAPSHOT_SECONDS = 15;

/** One run of `fit`. */
export class Training {
  /** Why it ended. @type {'steps' | 'data' | 'stop'} */
  stopped = 'steps';
  /** What keeps or compares a receipt. @type {Witness | undefined} */
  #witness;
  /** Of the submit that follows; taken while the GPU works. @type {Promise<NamedWords[]>} */
  #nextBatches = Promise.resolve([]);
  /** @type {Source | undefined} */
  #source;
  #stepsPerSubmit = 1;
  #pace = new Pace();
  #lostAtStep = -1;
  #firstStep = 0;
  #lastStep = Infinity;
  #isOver = false;
  /** Outputs that are one number each. @type {string[]} */
  #watched = [];
  /** @type {() => Promise<Numbers> | undefined} */
  #validate = () => undefined;

  /** @param {Session} session @param {any} model @param {any} data @param {Settings} options */
  constructor(session, model, data, options = {}) {
    const { entry = 'train', every = 10, validationEvery = every } = options;
    this.session = session;
    this.model = model;
    this.data = data;
    this.options = options;
    this.entryName = entry;
    /** Steps between reports, and between those with a validation. */
    this.periods = [every, validationEvery];
  }

  /** @returns {AsyncGenerator<Report, void, void>} */
  async *reports() {
    try {
      await this.#begin();
      while (!this.#isOver) {
        const batches = await this.#nextBatches;
        const { signal } = this.options;
        if (batches.length) signal?.throwIfAborted();
        this.session.machine.signal = signal;
        const report = await this.#submitSafely(batches);
        if (report) yield report;
      }
      const isShort = !this.options.epochs && this.#step < this.#lastStep;
      if (isShort && this.stopped === 'steps') this.stopped = 'data';
      await this.#source?.close();
    } finally {
      this.#isOver = true;
      if (this.session.training === this) this.session.machine.signal = undefined;
      // Also if it was left or failed: then that is what the caller hears of.
      await this.#keepResult().catch(() => {});
      if (this.session.training === this) this.session.training = undefined;
      this.#leaveSource();
    }
  }

  /** A snapshot of what was learned, so that `recover` loses none of it. */
  async #keepResult() {
    const { session, entryName, options } = this;
    const isKept = (ownOf(session.snapshot.progress.steps, entryName) ?? 0) === this.#step;
    if (!isKept && options.snapshot !== 0) await session.locked(() => session.takeSnapshot());
  }

  /** Nobody waits for it: the data may be slow, and there is another error to report. */
  #leaveSource() {
    this.#source?.close().catch(() => {});
  }

  /** Checks everything, and prepares the model for training. */
  async #begin() {
    const { session } = this;
    await this.#check();
    await this.#claim();
    await this.#openWitness();
    const { options } = this;
    // So that the result can be saved even if the network is gone by then.
    loadFiles().catch(() => {});
    if (this.data?.[DATA])
      this.#keepPreparation(this.data.preparation ?? namesAlone(session.preparation));
    session.progress.seed = options.seed ?? session.progress.seed;
    if (!options.resume) session.progress.position = 0;
    if (options.recover) session.snapshot.takenAt = -Infinity;
    this.#firstStep = options.resume ? 0 : this.#step;
    this.#lastStep = (options.steps ?? Infinity) + this.#firstStep;
    if (options.validation)
      this.#validate = await (await loadCalls()).openValidation(session, this.model, options);
    await this.#openData();
  }

  /** A receipt says how the training is made that replays it. */
  async #openWitness() {
    const { options, session, entryName, data } = this;
    if (!options.receipt && options.replay === undefined) return;
    this.#witness = await (await loadReceipts()).openWitness(session, entryName, data, options);
    this.options = { ...options, ...this.#witness.settings };
    this.periods[0] = this.options.every ?? this.periods[0];
  }

  /**
   * What the data was prepared by belongs to the model; a resumed training must go on with it.
   * @param {any} preparation
   */
  #keepPreparation(preparation) {
    const { session } = this;
    if (this.options.resume && session.preparation && !isSame(session.preparation, preparation))
      fail(
        'data',
        '',
        'the model was trained with data that was prepared in another way (its columns, classes ' +
          'or scaling differ): continue with the same data and options, or start anew',
      );
    session.preparation = preparation;
  }

  async #check() {
    const { plan } = this.session;
    // biome-ignore format: one name of an option after the other
    const { steps, epochs, seed = 0, entry: _, every, resume, validation, validationEntry,
      validationEvery, signal, snapshot, recover, receipt, replay, ...unknown } = this.options;
    const entry = ownOf(plan.entries, this.entryName);
    this.#watched = Object.entries(entry?.outputs ?? {})
      .filter(([, id]) => isScalar(plan.tensors[id]))
      .map(([port]) => port);
    const counts = [steps ?? epochs ?? 1, ...this.periods];
    const areCounts = counts.every(count => Number.isInteger(count) && count > 0);
    const canRepeat = epochs == null || (steps == null && typeof this.data !== 'function');
    const isKnown = !Object.keys(unknown).length && seed >>> 0 === seed;
    if (!entry?.training || !this.#watched.length || !areCounts || !canRepeat || !isKnown)
      (await loadCheck()).refuseFit(plan, this.entryName, this.options, unknown);
  }

  /** One training at a time. */
  async #claim() {
    const { session } = this;
    const other = session.training;
    if (other && !other.options.signal?.aborted)
      fail(
        'busy',
        'fit',
        'runs on this model already: await it, leave its loop or abort its signal',
      );
    session.training = this;
    // The last steps of one that was aborted are counted first.
    await session.locked(async () => {});
  }

  /** Steps made so far. */
  get #step() {
    return this.session.stepsOf(this.entryName);
  }

  async #openData() {
    const { plan, progress } = this.session;
    const { steps, epochs } = this.options;
    const length = { hasEnd: (steps ?? epochs) != null, epochs, first: this.#firstStep };
    // After a lost device, the data is read anew.
    this.#leaveSource();
    this.#source = await openSource(plan, this.entryName, this.data, progress, length);
    this.#nextBatches = this.#take(this.#step);
  }

  /** The batches of the submit that follows `step` steps. @param {number} step */
  #take(step) {
    const untilReports = this.periods.map(period => period - (step % period));
    const untilLook = this.#witness?.until(step) ?? Infinity;
    const count = Math.min(this.#stepsPerSubmit, ...untilReports, this.#lastStep - step, untilLook);
    return unlessAborted(this.#takeSome(count), this.options.signal);
  }

  /** @param {number} count */
  async #takeSome(count) {
    /** @type {NamedWords[]} */
    const batches = [];
    while (batches.length < count && !this.#isOver) {
      // A caller's function may compute for a while, and is called for many steps in a row.
      if (isPauseDue()) await nextTask();
      const batch = await this.#source?.take();
      if (!batch) break;
      batches.push(batch);
    }
    return batches;
  }

  /** @param {NamedWords[]} batches @returns {Promise<Report | undefined>} where one is due */
  async #submitSafely(batches) {
    const { session, entryName } = this;
    try {
      if (!batches.length) return await this.#end();
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

  /** @returns {Promise<undefined>} */
  async #end() {
    await this.#keepResult().catch(error => {
      // Without memory for a copy, the one before stays: the steps were made.
      if (error.code === 'device-lost') throw error;
    });
    this.#isOver = true;
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
    this.#nextBatches = this.#take(this.#step + count);
    // An error in the data is kept until the steps before it are done and counted.
    const [, next] = await Promise.allSettled([running, this.#nextBatches]);
    const outputs = mapRecord(await running, ([number]) => number);
    const ms = performance.now() - started;
    this.#stepsPerSubmit = Math.max(
      1,
      Math.floor(Math.min(this.#pace.next(count, ms), this.#mostSteps())),
    );
    const isEnd = next.status === 'fulfilled' && !next.value.length;
    return this.#report(outputs, ms / count, isEnd);
  }

  /** @param {Numbers} outputs @param {number} ms @param {boolean} isEnd */
  async #report(outputs, ms, isEnd) {
    const step = this.#step;
    const [isDue, isValidationDue] = this.periods.map(period => isEnd || step % period === 0);
    const loss = outputs.loss ?? outputs[this.#watched[0]];
    const seen = await this.#witness?.look({ step, loss, isDue, isEnd });
    if (this.#witness?.isOver) {
      this.#isOver = true;
      this.stopped = 'stop';
    }
    if (!isDue && !isValidationDue && !seen) return;
    const validation = isValidationDue ? await this.#validate() : undefined;
    return { step, loss, outputs, ...(validation && { validation }), ...seen, ms };
  }

  /** @param {number} calls that were made and count */
  #count(calls) {
    const { progress } = this.session;
    progress.steps[this.entryName] = this.#step + calls;
    progress.position += calls;
  }

  /** The most steps that a submit may have. */
  #mostSteps() {
    const { plan, machine } = this.session;
    const inputBytes = totalBytes(inputTensors(plan, this.entryName));
    return Math.min(
      SUBMIT_STEPS,
      SUBMIT_BYTES / (inputBytes + 1),
      SUBMIT_DISPATCHES / machine.commands[this.entryName].length,
    );
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

/**
 * The same promise, which an aborted signal rejects at once.
 * @template T @param {Promise<T>} promise @param {AbortSignal} [signal] @returns {Promise<T>}
 */
function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    const forget = () => signal.removeEventListener('abort', abort);
    promise.then(resolve, reject).then(forget);
  });
}

/** Whether two JSON values are equal, in whatever order their keys are. @param {any} a @param {any} b */
function isSame(a, b) {
  const sorted = (/** @type {string} */ _, /** @type {any} */ value) =>
    value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort()) : value;
  return JSON.stringify(a, sorted) === JSON.stringify(b, sorted);
}
