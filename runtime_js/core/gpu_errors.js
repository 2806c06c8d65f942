// Turns failures of the GPU into errors of ours, and waits for it without trusting it.

import { fail, WgccError } from './errors.js';

/** Longer, and it is a shader that never ends. */
const WAIT_MS = 600_000;
/** A mapping may fail this long before the browser reports the loss of the device. */
const LOSS_DELAY_MS = 50;

/** Waits for one device, but not for ever, and never takes a lost device for success. */
export class Waiter {
  /** Why nothing more will come: the device was lost, or the model disposed. @type {unknown} */
  failure;
  /** Ends what waits now. @type {(error: unknown) => void} */
  #giveUp = () => {};

  /** @param {unknown} failure */
  stop(failure) {
    this.failure = failure;
    this.#giveUp(failure);
  }

  /** @template T @param {Promise<T>} promise @returns {Promise<T>} */
  async wait(promise) {
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        // No race with `device.lost`: a promise that lives on would keep every loser.
        this.#giveUp = reject;
        timer = setTimeout(reject, WAIT_MS, new WgccError('time-out', 'the GPU hangs'));
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
 * Runs `make` inside error scopes; its failures become ours.
 * @template T
 * @param {GPUDevice} device @param {Waiter} waiter @param {string} what @param {() => T} make
 * @returns {Promise<Awaited<T>>}
 */
export async function inErrorScopes(device, waiter, what, make) {
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  // In a function of its own, so that what throws at once is an error like what fails later.
  const making = (async () => make())();
  const [invalid, full, made] = await waiter.wait(
    Promise.all([device.popErrorScope(), device.popErrorScope(), making]),
  );
  if (full) fail('memory', '', `the GPU lacks memory for ${what}`);
  if (invalid) fail('gpu', '', `the GPU refused ${what}: ${invalid.message}`);
  return made;
}
