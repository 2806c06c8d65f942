// What one thread of the twin does. The class is sent to workers as text, so it refers to nothing
// outside itself, and keeps to JavaScript that bundlers leave as it is (no private fields).

/**
 * @typedef {['copy', number, number, number, number, number] | ['clear', number, number, number] |
 *   ['call', string]} Operation copy: from a place and its byte, to a place and its byte, bytes;
 *   clear: a place, its byte, bytes; call: an export of the module
 * @typedef {object} Start
 * @property {WebAssembly.Module} module
 * @property {number} pages of memory
 * @property {WebAssembly.Memory} [memory] that threads share
 * @property {Int32Array} [control] by which thread 0 tells the others what to call
 * @property {number} number of this thread
 * @property {number} threads
 * @property {string} [lock] to hold as long as the thread lives
 * @property {boolean} isInline whether it runs where the page does, and must let it live
 * @typedef {object} Request one of these, beside its `id`
 * @property {number} [id] of the answer; none where nobody waits
 * @property {Start} [start]
 * @property {[number, number][]} [allocate] places and their bytes
 * @property {number} [free] a place
 * @property {[number, Uint32Array]} [write] a byte of the memory, and words
 * @property {Job} [run]
 * @property {{calls: string[], ms: number}} [measure]
 * @typedef {object} Job
 * @property {string} operations as JSON: most submits have the same ones, which are read only once
 * @property {ArrayBuffer} staging
 * @property {number} size of what goes back
 * @typedef {{id?: number, result?: any, error?: string, isMemory?: boolean}} Reply
 */

/** One thread: number 0 runs submits; others only call the exports that it calls. */
export class TwinThread {
  /** @param {(reply: Reply, transfer?: Transferable[]) => void} post */
  constructor(post) {
    this.post = post;
    /** Memory, what came with the request, what goes back; then copies. @type {Uint8Array[]} */
    this.places = [];
    /** @type {Record<string, (thread: number, threads: number) => void>} */
    this.exports = {};
    this.number = 0;
    this.threads = 1;
    this.isInline = false;
    /** Number of the call, which export it is, threads that have ended it. @type {Int32Array} */
    this.control = new Int32Array(3);
    this.pausedAt = 0;
    /** Of the last submit: their text, and themselves. */
    this.text = '';
    /** @type {Operation[]} */
    this.operations = [];
  }

  /** Every failure is an answer. @param {Request} request */
  async receive(request) {
    try {
      const result = await this.answer(request);
      if (request.id !== undefined)
        this.post({ id: request.id, result }, request.run && this.large(result));
      if (request.start && this.number > 0) this.serve();
    } catch (/** @type {any} */ error) {
      // Without enough memory, WebAssembly and typed arrays throw this; a trap is another error.
      const isMemory = error instanceof RangeError && !request.run && !request.measure;
      this.post({ id: request.id, error: `${error?.message ?? error}`, isMemory });
    }
  }

  /** @param {Request} request @returns {any} */
  answer({ start, allocate, free, write, run, measure }) {
    if (start) return this.start(start);
    for (const [place, bytes] of allocate ?? []) this.places[place] = new Uint8Array(bytes);
    if (free) delete this.places[free];
    if (write) {
      const [at, { buffer, byteOffset, byteLength }] = write;
      this.places[0].set(new Uint8Array(buffer, byteOffset, byteLength), at);
      // A worker may not collect what it was sent for a long time.
      /** @type {any} */ (buffer).transfer?.(0);
    }
    if (measure) return measure.calls.map(name => this.measure(name, measure.ms));
    if (run) return this.run(run);
  }

  /** Whether it holds the lock. @param {Start} start */
  async start({ module, pages, memory, control, number, threads, isInline, lock }) {
    // All there ever is: it does not grow.
    const own = memory ?? new WebAssembly.Memory({ initial: pages, maximum: pages });
    const { exports } = await WebAssembly.instantiate(module, { env: { memory: own } });
    this.exports = /** @type {any} */ (exports);
    this.places = [new Uint8Array(own.buffer)];
    this.control = control ?? this.control;
    this.number = number;
    this.threads = threads;
    this.isInline = isInline;
    return lock && globalThis.navigator?.locks ? this.hold(lock) : false;
  }

  /** @param {string} lock */
  hold(lock) {
    return new Promise(resolve => {
      const forEver = () => {
        resolve(true);
        return new Promise(() => {});
      };
      // Pages from a disk may have none.
      navigator.locks.request(lock, forEver).catch(() => resolve(false));
    });
  }

  /**
   * The operations in order; what they copied to the place that goes back, and a large `staging`,
   * which can be filled again: a new one would take longer than the copies.
   * @param {Job} job
   */
  async run({ operations, staging, size }) {
    this.places[1] = new Uint8Array(staging);
    this.places[2] = new Uint8Array(size);
    if (operations !== this.text) this.operations = JSON.parse(operations);
    this.text = operations;
    for (const operation of this.operations) {
      this.perform(operation);
      if (this.isInline) await this.pause();
    }
    const found = this.places[2].buffer;
    return this.isLarge(staging) ? { found, staging } : { found };
  }

  /** Those that messages need not copy, which for small ones is faster. @param {object} buffers */
  large(buffers) {
    return Object.values(buffers).filter(this.isLarge);
  }

  /** @param {ArrayBufferLike} buffer */
  isLarge(buffer) {
    return buffer.byteLength > 4096;
  }

  /** @param {Operation} operation */
  perform(operation) {
    if (operation[0] === 'call') return this.call(operation[1]);
    if (operation[0] === 'clear') {
      const [, place, at, bytes] = operation;
      this.places[place].fill(0, at, at + bytes);
      return;
    }
    const [, from, fromAt, to, toAt, bytes] = operation;
    this.places[to].set(this.places[from].subarray(fromAt, fromAt + bytes), toAt);
  }

  /** Lets the page render and handle events from time to time. */
  async pause() {
    if (performance.now() - this.pausedAt < 12) return;
    await new Promise(resolve => setTimeout(resolve));
    this.pausedAt = performance.now();
  }

  /** One export, on all threads. @param {string} name */
  call(name) {
    const { control, threads } = this;
    if (threads > 1) {
      Atomics.store(control, 1, Object.keys(this.exports).indexOf(name));
      Atomics.store(control, 2, 0);
      Atomics.add(control, 0, 1);
      Atomics.notify(control, 0);
    }
    this.exports[name](this.number, threads);
    for (let ended = 0; ended < threads - 1; ended = Atomics.load(control, 2))
      this.waitFor(2, ended);
  }

  /** Calls what thread 0 calls, until that says to stop. */
  serve() {
    const names = Object.keys(this.exports);
    for (let calls = 0; ; calls++) {
      this.waitFor(0, calls);
      const index = Atomics.load(this.control, 1);
      if (index < 0) return;
      this.exports[names[index]](this.number, this.threads);
      Atomics.add(this.control, 2, 1);
      Atomics.notify(this.control, 2);
    }
  }

  /** Until a word is another. @param {number} word @param {number} old */
  waitFor(word, old) {
    // A sleeping thread takes 50 microseconds to wake up: as long as a small kernel runs.
    for (let i = 0; i < 2000; i++) if (Atomics.load(this.control, word) !== old) return;
    while (Atomics.load(this.control, word) === old) Atomics.wait(this.control, word, old);
  }

  /** Milliseconds of a call; browsers' clocks are coarse. @param {string} name @param {number} ms */
  measure(name, ms) {
    const begun = performance.now();
    for (let calls = 1; ; calls++) {
      this.call(name);
      const passed = performance.now() - begun;
      if (passed >= ms) return passed / calls;
    }
  }
}
