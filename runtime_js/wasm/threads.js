// The threads that a twin runs on, and messages to them. Thread 0 answers; the others follow it. If
// one of them ends, all end.

import { fail } from '../core/errors.js';
import { timesRun } from '../core/repeats.js';
import { hasWorkers, openInline, openWorker, sharingObstacle } from './workers.js';

/** @import { Plan } from '../core/plan.js' */
/** @import { Reply, Request } from './thread.js' */
/** @import { Listener, Obstacle, ThreadHandle } from './workers.js' */
/**
 * @typedef {object} Program
 * @property {WebAssembly.Module} module
 * @property {number} pages of memory
 * @property {boolean} isShared whether the module takes shared memory
 * @property {number} threads
 * @typedef {Obstacle | 'small' | 'asked' | 'cores' | 'enough'} ThreadLimit
 */

const MOST_THREADS = 4;
/** The most threads that can be requested; each needs a worker. */
const MOST_ASKED_FOR = 64;
/** Operations of the longest entry below which threads wait longer than they work. */
const THREADED_FLOPS = 1e7;
/** The same for one dispatch of a loop: threads wait for each other after each. */
const THREADED_ROUND = 2e6;

/**
 * How many threads a bundle runs on here, and why there are not more.
 * @param {Plan} plan @param {number} [wanted] @returns {{threads: number, limit: ThreadLimit}}
 */
export function threadsHere(plan, wanted) {
  if (wanted !== undefined && !(Number.isInteger(wanted) && wanted > 0 && wanted <= MOST_ASKED_FOR))
    fail('range', 'threads', `is a whole number from 1 to ${MOST_ASKED_FOR}, not ${wanted}`);
  if (wanted === undefined && longestFlops(plan) < THREADED_FLOPS)
    return { threads: 1, limit: 'small' };
  const obstacle = sharingObstacle();
  if (obstacle) return { threads: 1, limit: obstacle };
  if (wanted) return { threads: wanted, limit: 'asked' };
  // Two threads of one core share its arithmetic.
  const cores = Math.ceil((globalThis.navigator?.hardwareConcurrency ?? 2) / 2);
  return cores < MOST_THREADS
    ? { threads: cores, limit: 'cores' }
    : { threads: MOST_THREADS, limit: 'enough' };
}

/** Operations of the longest entry that threads can share. @param {Plan} plan */
function longestFlops({ entries }) {
  const flops = Object.values(entries).map(entry => {
    const times = timesRun(entry);
    return entry.dispatches.reduce(
      (sum, { flops = 0 }, i) =>
        times[i] === 1 || flops >= THREADED_ROUND ? sum + times[i] * flops : sum,
      0,
    );
  });
  return Math.max(...flops);
}

export class Threads {
  /** @type {ThreadHandle[]} */
  #handles = [];
  /** Who waits for which answer. @type {Map<number, {resolve: Function, reject: Function}>} */
  #waiting = new Map();
  #lastId = 0;
  #isStarted = false;
  /** @type {Int32Array | undefined} */
  #control;
  /** Whether it runs where the page does, because workers are forbidden. */
  isInline = false;
  count = 1;

  /** @param {(text: string) => void} onLost is called once they can no longer be used */
  constructor(onLost) {
    this.onLost = onLost;
  }

  /** In workers; where a policy forbids them, here. @param {Program} program */
  async start(program) {
    if (hasWorkers()) {
      try {
        await this.#open(program, openWorker);
        return;
      } catch (error) {
        this.end();
        // If there is not enough memory in workers, there is not enough here, either.
        if (error instanceof RangeError) throw error;
      }
    }
    this.isInline = true;
    await this.#open({ ...program, threads: 1 }, openInline);
  }

  /** @param {Program} program @param {(listener: Listener) => ThreadHandle} open */
  async #open({ module, pages, threads, isShared }, open) {
    const memory = isShared ? sharedMemory(pages) : undefined;
    const control = isShared ? new Int32Array(new SharedArrayBuffer(12)) : undefined;
    this.count = threads;
    this.#control = control;
    const { isInline } = this;
    const starting = Array.from({ length: threads }, async (_, number) => {
      this.#handles.push(open(this.#listener(this.#handles)));
      const lock = isInline ? undefined : `wgcc ${Math.random()}`;
      const start = { module, pages, memory, control, number, threads, isInline, lock };
      return { lock, isHeld: await this.#ask(number, { start }) };
    });
    const started = await Promise.all(starting);
    this.#isStarted = true;
    for (const { lock, isHeld } of started) if (lock && isHeld) this.#watch(lock);
  }

  /** Browsers do not tell of a worker's end, but free its lock. @param {string} lock */
  #watch(lock) {
    const { onEnd } = this.#listener(this.#handles);
    navigator.locks.request(lock, () => onEnd('its worker ended')).catch(() => {});
  }

  /** What threads say after their end is not heard. @param {ThreadHandle[]} handles @returns {Listener} */
  #listener(handles) {
    const isCurrent = () => this.#handles === handles;
    return {
      onReply: reply => isCurrent() && this.#take(reply),
      onEnd: text => isCurrent() && this.#lose(text),
    };
  }

  /** Asks thread 0. @param {Request} request @param {Transferable[]} [transfer] */
  ask(request, transfer) {
    return this.#ask(0, request, transfer);
  }

  /** Asks for what nobody waits for. @param {Request} request @param {Transferable[]} [transfer] */
  tell(request, transfer) {
    this.#handles[0]?.post(request, transfer);
  }

  /**
   * @param {number} number @param {Request} request @param {Transferable[]} [transfer]
   * @returns {Promise<any>}
   */
  #ask(number, request, transfer) {
    return new Promise((resolve, reject) => {
      this.#lastId++;
      this.#waiting.set(this.#lastId, { resolve, reject });
      this.#handles[number]?.hold(true);
      this.#handles[number]?.post({ ...request, id: this.#lastId }, transfer);
    });
  }

  /** @param {Reply} reply */
  #take({ id = 0, result, error, isMemory }) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!this.#waiting.size) for (const handle of this.#handles) handle.hold(false);
    if (error === undefined) waiting?.resolve(result);
    else if (isMemory) waiting?.reject(new RangeError(error));
    else this.#lose(error);
  }

  /** @param {string} text */
  #lose(text) {
    const wasStarted = this.#isStarted;
    const waiting = [...this.#waiting.values()];
    this.end();
    if (wasStarted) this.onLost(text);
    // Before the start, nobody else would report it.
    else for (const { reject } of waiting) reject(new Error(text));
  }

  end() {
    for (const handle of this.#handles) handle.end();
    if (this.#control) callNothing(this.#control);
    this.#handles = [];
    this.#waiting.clear();
  }
}

/** Deno ends no worker that waits, so those that wait for a call get one. @param {Int32Array} control */
function callNothing(control) {
  Atomics.store(control, 1, -1);
  Atomics.add(control, 0, 1);
  Atomics.notify(control, 0);
}

/** @param {number} pages */
function sharedMemory(pages) {
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
}
