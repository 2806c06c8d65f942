// A training in a worker. Functions and iterables that give its data stay on the page, which the
// worker asks for each batch.

import { DATA } from '../core/batches.js';

/** @typedef {{model: any, iterate: (method: string, ...given: any[]) => AsyncGenerator<any, any>}} Remote */

export class RemoteTraining {
  /** Why it ended. @type {'steps' | 'data' | 'stop'} */
  stopped = 'steps';

  /** @param {Remote} remote @param {any} data @param {any} [options] */
  constructor(remote, data, options = {}) {
    this.remote = remote;
    this.data = isIterable(data) ? iterableOf(data) : data;
    const { validation } = options;
    const isOwn = typeof validation === 'function';
    this.options = isOwn ? { ...options, validation: () => validation(remote.model) } : options;
  }

  async *reports() {
    this.stopped = yield* this.remote.iterate('fit', this.data, this.options);
  }
}

/** @param {any} data */
function isIterable(data) {
  if (!data || typeof data === 'function' || data[DATA]) return false;
  return Boolean(data[Symbol.iterator] || data[Symbol.asyncIterator]);
}

/**
 * What the worker needs to read it, more than once if it can be: functions that know each reading by
 * a number.
 * @param {any} data
 */
function iterableOf(data) {
  /** @type {any[]} */
  const iterators = [];
  return {
    wgccIterable: {
      open: () => iterators.push(data[Symbol.asyncIterator]?.() ?? data[Symbol.iterator]()) - 1,
      next: (/** @type {number} */ id) => iterators[id].next(),
      close: async (/** @type {number} */ id) => {
        const iterator = iterators[id];
        iterators[id] = undefined;
        await iterator?.return?.();
      },
    },
    canRepeat: !data.next,
  };
}
