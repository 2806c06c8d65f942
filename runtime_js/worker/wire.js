// Calls between a page and a worker: arguments and results may hold functions, signals and arrays
// with shapes, which messages between threads cannot.

import { DATA } from '../core/batches.js';
import { WgccError } from '../core/errors.js';
import { mapRecord } from '../core/records.js';

/**
 * @typedef {{postMessage: (message: any) => void, addEventListener: any}} Port a worker, or what it
 *   has to reach its page
 * @typedef {{code?: string, field?: string, name: string, message: string}} Problem
 */

/** The key that marks what a message holds instead of something else. */
const KIND = 'wgcc kind';

/** One end of the connection. */
export class Wire {
  #port;
  #answer;
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: unknown) => void}>} */
  #waiting = new Map();
  /** Functions and controllers that the other end knows by number. @type {Map<number, any>} */
  #known = new Map();
  #count = 0;
  /** Sent with every result. @type {() => any} */
  facts = () => undefined;
  /** @type {(facts: any) => void} */
  onFacts = () => {};

  /** @param {Port} port @param {(method: string, given: any[]) => any} answer to calls */
  constructor(port, answer) {
    this.#port = port;
    this.#answer = answer;
    port.addEventListener('message', (/** @type {{data: any}} */ { data }) => this.#receive(data));
  }

  /**
   * A call. The functions and signals among its arguments are forgotten at its end.
   * @param {string} method @param {any[]} given @returns {Promise<any>}
   */
  async call(method, ...given) {
    const { value, release } = this.hold(method, ...given);
    try {
      return await value;
    } finally {
      release();
    }
  }

  /**
   * A call whose functions and signals the other end may use until `release`.
   * @param {string} method @param {any[]} given
   * @returns {{value: Promise<any>, release: () => void}}
   */
  hold(method, ...given) {
    const id = ++this.#count;
    /** @type {(() => void)[]} */
    const releases = [];
    const value = new Promise((resolve, reject) => {
      this.#port.postMessage({ id, method, given: this.#encode(given, releases) });
      this.#waiting.set(id, { resolve, reject });
    });
    const release = () => {
      for (const forget of releases.splice(0)) forget();
    };
    return { value, release };
  }

  /** Every call ends with this error. @param {unknown} error */
  fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /** @param {any} message */
  #receive({ id, method, given, value, problem, facts }) {
    if (facts) this.onFacts(facts);
    if (method === 'abort') this.#known.get(id)?.abort();
    else if (method === 'release') this.#known.delete(id);
    else if (method) this.#reply(id, method, given);
    else {
      const { resolve, reject } = this.#waiting.get(id) ?? {};
      this.#waiting.delete(id);
      if (problem) reject?.(errorOf(problem));
      else resolve?.(this.#decode(value));
    }
  }

  /** @param {number} id @param {string} method @param {any[]} given */
  async #reply(id, method, given) {
    const { facts } = this;
    try {
      const arguments_ = this.#decode(given);
      const value = await (method === 'function'
        ? this.#known.get(arguments_[0])(...arguments_[1])
        : this.#answer(method, arguments_));
      this.#port.postMessage({ id, value: this.#encode(value, []), facts: facts() });
    } catch (error) {
      this.#port.postMessage({ id, problem: problemOf(error), facts: facts() });
    }
  }

  /** @param {any} value @param {(() => void)[]} releases to which is added how to forget it @returns {any} */
  #encode(value, releases) {
    if (typeof value === 'function') return this.#encodeFunction(value, releases);
    if (Object(value) !== value) return value;
    if (value instanceof AbortSignal) return this.#encodeSignal(value, releases);
    if (value instanceof URL) return `${value}`;
    if (ArrayBuffer.isView(value))
      return 'shape' in value ? { [KIND]: 'array', value, shape: value.shape } : value;
    if (value[DATA]) {
      const { arrays, preparation, rows, withRows } = value;
      return {
        [KIND]: 'data',
        arrays: this.#encode(arrays, releases),
        preparation,
        rows,
        withRows,
      };
    }
    if (Array.isArray(value)) return value.map(item => this.#encode(item, releases));
    return isPlain(value) ? mapRecord(value, item => this.#encode(item, releases)) : value;
  }

  /** @param {any} value @param {(() => void)[]} releases */
  #encodeFunction(value, releases) {
    const id = ++this.#count;
    this.#known.set(id, value);
    releases.push(() => this.#known.delete(id));
    return { [KIND]: 'function', id };
  }

  /** @param {AbortSignal} signal @param {(() => void)[]} releases */
  #encodeSignal(signal, releases) {
    // The other end counts its functions by numbers above 0.
    const id = -++this.#count;
    const abort = () => this.#port.postMessage({ id, method: 'abort' });
    signal.addEventListener('abort', abort);
    releases.push(() => {
      signal.removeEventListener('abort', abort);
      this.#port.postMessage({ id, method: 'release' });
    });
    return { [KIND]: 'signal', id, isAborted: signal.aborted };
  }

  /** @param {any} value @returns {any} */
  #decode(value) {
    if (Array.isArray(value)) return value.map(item => this.#decode(item));
    if (!isPlain(value)) return value;
    const { [KIND]: kind, id } = value;
    if (kind === 'array') return Object.assign(value.value, { shape: value.shape });
    if (kind === 'function')
      return (/** @type {any[]} */ ...given) => this.call('function', id, given);
    if (kind === 'data') return { ...value, [DATA]: true, arrays: this.#decode(value.arrays) };
    if (kind !== 'signal') return mapRecord(value, item => this.#decode(item));
    const controller = new AbortController();
    if (value.isAborted) controller.abort();
    this.#known.set(id, controller);
    return controller.signal;
  }
}

/** @param {any} value */
function isPlain(value) {
  return Object(value) === value && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

/** @param {any} error @returns {Problem} */
function problemOf(error) {
  const { name, message, code, field } = Object(error);
  return WgccError.is(error)
    ? { name, message, code, field }
    : { name, message: message ?? `${error}` };
}

/** @param {Problem} problem */
function errorOf({ name, message, code, field }) {
  if (code) return Object.assign(new WgccError(code, '', field), { message });
  if (name === 'AbortError' || name === 'TimeoutError') return new DOMException(message, name);
  return Object.assign(new Error(message), { name });
}
