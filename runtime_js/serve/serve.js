// What runs in a worker of `load({ worker: true })`: the model, which a page calls by messages.

import { open } from '../core/loader.js';
import { Wire } from '../worker/wire.js';

/** The name of the worker, by which this file knows that it is one. */
const NAME = 'wgcc';

/** Answers the page from now on. @param {any} port of the worker */
export function serve(port) {
  const server = new Server();
  const wire = new Wire(port, (method, given) => server.answer(method, given));
  wire.facts = () => server.facts();
  server.onLost = info => wire.call('lost', info);
}

class Server {
  /** @type {any} */
  #model;
  /** @type {Map<number, AsyncGenerator<any, any, void>>} */
  #iterators = new Map();
  #count = 0;
  /** @type {(info: {reason: string, message: string}) => unknown} */
  onLost = () => {};

  /** @param {string} method @param {any[]} given @returns {any} */
  answer(method, given) {
    const own = {
      open: () => this.#open(given[0], given[1]),
      iterate: () => this.#iterate(given[0], given[1]),
      next: () => this.#iterators.get(given[0])?.next(),
      return: () => this.#end(given[0]),
      set: () => {
        this.#model[given[0]] = given[1];
      },
    };
    if (Object.hasOwn(own, method)) return own[/** @type {keyof typeof own} */ (method)]();
    const running = this.#model[method](...given);
    return method === 'recover' ? running.then(() => this.#watch()) : running;
  }

  /** What the page shows of the model. */
  facts() {
    if (!this.#model) return undefined;
    const { progress, adapter, classes, checkFinite, preparation } = this.#model;
    return { progress, adapter, classes, checkFinite, preparation };
  }

  /** @param {any} bundle @param {any} options */
  async #open(bundle, options) {
    const { weights, twin } = bundle;
    this.#model = await open(
      { ...bundle, weights: weights && (() => weights), twin: twin && (() => twin) },
      options,
    );
    this.#watch();
  }

  #watch() {
    this.#model.lost?.then((/** @type {any} */ { reason, message }) =>
      this.onLost({ reason, message }),
    );
  }

  /** @param {string} method @param {any[]} given */
  #iterate(method, given) {
    const id = ++this.#count;
    this.#iterators.set(id, method === 'fit' ? this.#fit(given) : this.#model[method](...given));
    return id;
  }

  /** @param {any[]} given */
  async *#fit([data, { validation, ...options }]) {
    // A function of the page knows the model already.
    const checked = typeof validation === 'function' ? () => validation() : validation;
    const training = this.#model.fit(
      batchesOf(data),
      checked ? { ...options, validation: checked } : options,
    );
    yield* training;
    return (await training).stopped;
  }

  /** @param {number} id */
  async #end(id) {
    const iterator = this.#iterators.get(id);
    this.#iterators.delete(id);
    await iterator?.return(undefined);
  }
}

/** The page's data; an iterable is read there, batch by batch. @param {any} data */
function batchesOf(data) {
  if (!data?.wgccIterable) return data;
  const { open, next, close } = data.wgccIterable;
  const iterable = {
    [Symbol.asyncIterator]() {
      /** @type {Promise<number>} */
      const opening = open();
      return {
        next: async () => next(await opening),
        return: async () => {
          await close(await opening);
          return { done: true, value: undefined };
        },
      };
    },
  };
  return data.canRepeat ? iterable : Object.assign(iterable, { next() {} });
}

const scope = /** @type {any} */ (globalThis);
if (!scope.document && scope.name === NAME) serve(scope);
