// The twin of the GPU: the same calls as core/machine.js, on the linear memory of a WebAssembly
// module. Everything that trains, saves and checks works on either.

import { fail, WgccError } from '../core/errors.js';
import { WORD_BYTES } from '../core/plan.js';
import { mapRecord } from '../core/records.js';
import { runOrder } from '../core/repeats.js';
import { Recorder } from './recorder.js';
import { Threads, threadsHere } from './threads.js';
import { compileTwin } from './twin_file.js';

/** @import { Words } from '../core/arrays.js' */
/** @import { Waiter } from '../core/gpu_errors.js' */
/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Machine } from '../core/machine.js' */
/** @import { Plan, Tensor, Twin } from '../core/plan.js' */
/** @import { Buffer } from './recorder.js' */
/** @import { Program, ThreadLimit } from './threads.js' */
/** @typedef {(encoder: Recorder, readback: Buffer) => void} Recording */

const PAGE_BYTES = 2 ** 16;
/** The bytes that 32-bit addresses can reach. */
const MOST_PAGES = 2 ** 16;
/** The places of a thread: its memory, what comes with a submit, what goes back; then copies. */
const MEMORY = 0;
const STAGING = 1;
const READBACK = 2;
const FIRST_COPY = 3;
/** Messages copy buffers up to this size, because that is faster than to move them. */
const COPIED_BYTES = 4096;
/** Each kernel is called until this much time has passed, because browsers' clocks are coarse. */
const MEASURED_MS = 2;
/** So long a call may go on after its signal was aborted. */
const GRACE_MS = 5000;

/**
 * The bundle on its twin.
 * @param {Bundle} bundle @param {LoadOptions} options @param {Waiter} waiter
 * @returns {Promise<Machine>}
 */
export async function openTwin(bundle, options, waiter) {
  /** @type {Plan} */
  const plan = bundle.plan;
  const twin = /** @type {Twin} */ (plan.twin);
  const { threads, limit } = threadsHere(plan, options.threads);
  const pages = pagesFor(twin, threads);
  const isShared = threads > 1;
  const module = await compileTwin(bundle, options, isShared);
  const machine = new TwinMachine(waiter, plan, twin);
  try {
    machine.adapter.threadLimit = limit;
    await machine.start({ module, pages, isShared, threads });
  } catch (error) {
    machine.dispose();
    throw error;
  }
  options.onProgress?.({ stage: 'kernels', done: 1, total: 1 });
  return /** @type {Machine} */ (/** @type {unknown} */ (machine));
}

/** @param {Twin} twin @param {number} threads */
function pagesFor({ bytes, scratch }, threads) {
  const needed = bytes + threads * scratch;
  const pages = Math.ceil(needed / PAGE_BYTES);
  if (pages <= MOST_PAGES) return pages;
  return fail('memory', '', `${needed} bytes are more than WebAssembly can have`);
}

/** One bundle on the threads of its twin. */
class TwinMachine {
  /** A twin has no GPU device. */
  gpu = undefined;
  /** What callers see. */
  adapter = {
    name: 'WebAssembly',
    kind: 'wasm',
    profile: 'wasm',
    threads: 1,
    threadLimit: /** @type {ThreadLimit} */ ('small'),
  };
  /** In the plan's order. @type {Buffer[]} */
  buffers;
  /** What each entry runs, and what tests the values it wrote. @type {Record<string, string[]>} */
  commands = {};
  /** @type {Record<string, string[]>} */
  guardCommands = {};
  /** Entries whose steps check what they will write. @type {string[]} */
  checked = [];
  /** Of the job that runs. @type {AbortSignal | undefined} */
  signal;
  /** Resolves when the threads are gone. @type {Promise<{reason: string, message: string}>} */
  lost;
  #threads;
  #nextPlace = FIRST_COPY;
  /** Copies that thread 0 does not have yet. @type {[number, number][]} */
  #wanted = [];
  /** Data for the next submit. */
  #staged = new Uint8Array();
  /** What held the data of an earlier one. */
  #spare = new ArrayBuffer(0);
  /** @type {(loss: {reason: string, message: string}) => void} */
  #tellLoss = () => {};

  /** @param {Waiter} waiter @param {Plan} plan @param {Twin} twin */
  constructor(waiter, plan, twin) {
    this.waiter = waiter;
    this.plan = plan;
    this.buffers = plan.buffers.map(({ name, bytes }) => ({
      place: MEMORY,
      base: twin.buffers[name],
      size: bytes,
    }));
    this.lost = new Promise(resolve => {
      this.#tellLoss = resolve;
    });
    this.#threads = new Threads(text => this.#lose(text));
  }

  /** @param {Program} program */
  async start(program) {
    const what = `${program.pages * PAGE_BYTES} bytes`;
    await this.waiter.wait(asMemory(what, this.#threads.start(program)));
    this.adapter.threads = this.#threads.count;
    const { entries } = this.plan;
    // If the twin runs in the page's own thread, calls must be short.
    const whole = !this.#threads.isInline;
    if (!whole) this.adapter.threadLimit = 'no-workers';
    else this.checked = this.plan.twin?.checked ?? [];
    this.commands = mapRecord(entries, (entry, name) =>
      whole ? [name] : Array.from(runOrder(entry), ([number]) => `${name}/${number}`),
    );
    this.guardCommands = mapRecord(entries, ({ guard }, name) => (guard ? [`${name}/guard`] : []));
  }

  /** The module has all entries; engines compile a function when it is first called. */
  async compile() {}

  /** Ends the threads, which frees their memory. */
  dispose() {
    this.#threads.end();
    this.#tellLoss({ reason: 'destroyed', message: 'the model was disposed' });
  }

  /**
   * The answer of the threads. A call that goes on for long after its signal was aborted is left,
   * and its threads end; in the page's own thread nothing can end it.
   * @param {Promise<any>} asked
   */
  async #answer(asked) {
    const { signal } = this;
    let timer;
    const abort = () => {
      timer = setTimeout(() => this.#lose('a call was not waited for any longer'), GRACE_MS);
    };
    signal?.addEventListener('abort', abort);
    try {
      return await this.waiter.wait(asked);
    } catch (/** @type {any} */ error) {
      // The threads would go on for ever.
      if (error.code === 'time-out') this.#lose('a call did not end');
      signal?.throwIfAborted();
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** @param {string} text */
  #lose(text) {
    this.#threads.end();
    const message = `the WebAssembly twin failed: ${text}`;
    if (this.waiter.failure === undefined)
      this.waiter.stop(new WgccError('device-lost', `${message}: call recover() to continue`));
    this.#tellLoss({ reason: 'unknown', message });
  }

  /** @param {string} entryName */
  dispatches(entryName) {
    return this.plan.entries[entryName].dispatches;
  }

  /** One command for each dispatch of an entry. @param {string} entryName */
  eachOf(entryName) {
    return this.dispatches(entryName).map((_, i) => `${entryName}/${i}`);
  }

  /**
   * Runs `make`; if there is not enough memory, this throws a `WgccError`.
   * @template T @param {string} what @param {() => T} make
   */
  async scoped(what, make) {
    const made = await make();
    const allocate = this.#wanted.splice(0);
    const allocated = allocate.length && this.#threads.ask({ allocate });
    if (allocated) await this.waiter.wait(asMemory(what, allocated));
    return made;
  }

  /** A copy, inside `scoped`. @param {number} size @returns {Buffer} */
  storage(size) {
    const place = this.#nextPlace++;
    this.#wanted.push([place, size]);
    return { place, base: 0, size };
  }

  /** @param {Buffer} buffer */
  free({ place }) {
    this.#threads.tell({ free: place });
  }

  /** Holds the inputs of several calls until each is made. @param {number} size @returns {Buffer} */
  staging(size) {
    const isFitting = this.#spare.byteLength === size;
    this.#staged = isFitting ? new Uint8Array(this.#spare) : new Uint8Array(size);
    return { place: STAGING, base: 0, size };
  }

  /** @param {Buffer} _ @param {number} at @param {Words} words */
  stage(_, at, words) {
    this.#staged.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), at);
  }

  /** @param {Recorder} encoder @param {string[]} commands */
  record(encoder, commands) {
    for (const name of commands) encoder.call(name);
  }

  /**
   * Starts to write.
   * @param {Tensor} tensor @param {Words} words @param {number} [at] which byte of the tensor
   */
  write({ buffer, offset }, words, at = 0) {
    // Of a part of an array, a message would copy all.
    const part = words.slice();
    const moved = part.byteLength > COPIED_BYTES ? [part.buffer] : [];
    this.#threads.tell({ write: [this.buffers[buffer].base + offset + at, part] }, moved);
  }

  /**
   * Runs what `record` records, and returns the first `size` bytes of the readback buffer.
   * @param {number} size @param {Recording} record @returns {Promise<Words>}
   */
  async submit(size, record) {
    const encoder = new Recorder();
    record(encoder, { place: READBACK, base: 0, size });
    const staging = this.#staged.buffer;
    this.#staged = new Uint8Array();
    const run = { operations: JSON.stringify(encoder.operations), staging, size };
    const asked = this.#threads.ask({ run }, staging.byteLength > COPIED_BYTES ? [staging] : []);
    const answer = await this.#answer(asked);
    // A message that copied the data has left them here.
    const used = answer.staging ?? staging;
    if (used.byteLength) this.#spare = used;
    return new Uint32Array(answer.found);
  }

  /** Runs what nothing is read back of. @param {(encoder: Recorder) => void} [record] */
  async finish(record = () => {}) {
    await this.submit(WORD_BYTES, record);
  }

  /** @param {number} buffer @param {number} offset @param {number} size */
  read(buffer, offset, size) {
    return this.submit(size, (encoder, readback) =>
      encoder.copyBufferToBuffer(this.buffers[buffer], offset, readback, 0, size),
    );
  }

  /**
   * Milliseconds of each command.
   * @param {string[]} calls @returns {Promise<number[]>}
   */
  measure(calls) {
    return this.waiter.wait(this.#threads.ask({ measure: { calls, ms: MEASURED_MS } }));
  }
}

/** @template T @param {string} what @param {Promise<T>} promise @returns {Promise<T>} */
function asMemory(what, promise) {
  return promise.catch(error => {
    if (error instanceof RangeError) fail('memory', '', `there is no memory for ${what}`);
    throw error;
  });
}
