// Turns failures of the GPU into `WgccError`s, and waits for it with time-outs.

import { fail, WgccError } from './errors.js';

/** Work that takes longer is treated as a shader that never ends. */
const WAIT_MS = 600_000;
/** A mapping may fail this long before the browser reports the loss of the device. */
const LOSS_DELAY_MS = 50;

/** Waits for one device, with a time-out, and never mistakes a lost device for success. */
export class Waiter {
  /** Why there are no more results: the device was lost, or the model disposed. @type {unknown} */
  failure;
  /** Ends the current wait. @type {(error: unknown) => void} */
  #giveUp = () => {};

  /** @param {unknown} failure */
  stop(failure) {
    this.failure = failure;
    this.#giveUp(failure);
  }

  /**
   * @template T @param {Promise<T>} promise which may never be settled
   * @returns {Promise<T>}
   */
  async wait(promise) {
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        // No race with `device.lost`: that promise lives on and would keep all others alive.
        this.#giveUp = reject;
        const refuse = () => reject(new WgccError('time-out', 'the GPU hangs'));
        timer = setTimeout(refuse, WAIT_MS);
        if (this.failure) reject(this.failure);
        promise.then(resolve, reject);
      });
    } catch (error) {
      await new Promise(resolve => setTimeout(resolve, LOSS_DELAY_MS));
      throw this.failure ?? (error instanceof WgccError ? error : new WgccError('gpu', `${error}`));
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Runs `make` inside error scopes; its failures become `WgccError`s.
 * @template T
 * @param {GPUDevice} device @param {Waiter} waiter @param {string} what @param {() => T} make
 * @returns {Promise<Awaited<T>>}
 */
export async function inErrorScopes(device, waiter, what, make) {
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  // In an async function, so that what throws at once is handled like what fails later.
  const making = (async () => make())();
  const [invalid, full, made] = await waiter.wait(
    Promise.all([device.popErrorScope(), device.popErrorScope(), making]),
  );
  if (full) fail('memory', '', `the GPU lacks memory for ${what}`);
  if (invalid) fail('gpu', '', `the GPU refused ${what}: ${invalid.message}`);
  return made;
}
