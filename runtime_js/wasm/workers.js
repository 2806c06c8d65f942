// Starts the workers that the twin runs in, in a browser, Deno or Node.

import { TwinThread } from './thread.js';

/** @import { Reply, Request } from './thread.js' */
/**
 * @typedef {object} ThreadHandle one worker, or the thread that asks itself
 * @property {(request: Request, transfer?: any[]) => void} post
 * @property {(isBusy: boolean) => void} hold whether the process must wait for it
 * @property {() => void} end
 * @typedef {object} Listener
 * @property {(reply: Reply) => unknown} onReply
 * @property {(text: string) => unknown} onEnd it is gone, or could not be started
 * @typedef {'no-workers' | 'not-isolated' | 'no-shared-memory'} Obstacle
 */

/** Why workers cannot share memory here, if they cannot. @returns {Obstacle | undefined} */
export function sharingObstacle() {
  if (!hasWorkers()) return 'no-workers';
  // Only browsers know it.
  if (globalThis.crossOriginIsolated === false) return 'not-isolated';
  return typeof SharedArrayBuffer === 'function' ? undefined : 'no-shared-memory';
}

/** Whether there are workers, though a policy may still forbid them. */
export function hasWorkers() {
  return Boolean(globalThis.Worker ?? nodeThreads());
}

/** @returns {any} node:worker_threads */
function nodeThreads() {
  const { process } = /** @type {any} */ (globalThis);
  return process?.getBuiltinModule?.('node:worker_threads');
}

/** @param {Listener} listener @returns {ThreadHandle} */
export function openWorker(listener) {
  return globalThis.Worker ? openWebWorker(listener) : openNodeWorker(listener);
}

/** The thread that runs here, where there are no workers. @param {Listener} listener */
export function openInline({ onReply }) {
  const thread = new TwinThread(onReply);
  return {
    post: (/** @type {Request} */ request) => void thread.receive(request),
    hold() {},
    end() {},
  };
}

/** @param {Listener} listener @returns {ThreadHandle} */
function openWebWorker({ onReply, onEnd }) {
  const start = `const thread = new (${TwinThread})((reply, transfer) => postMessage(reply, transfer));
onmessage = ({ data }) => thread.receive(data);`;
  // A page from a disk cannot start a worker from a file, and in Chromium no module from a blob;
  // Deno starts only modules.
  const url = URL.createObjectURL(new Blob([start], { type: 'text/javascript' }));
  const worker = new Worker(url, { type: 'Deno' in globalThis ? 'module' : 'classic' });
  // Once, after the first reply: it takes a tenth of a millisecond, and before, it may be too early.
  worker.addEventListener('message', () => URL.revokeObjectURL(url), { once: true });
  worker.onmessage = ({ data }) => onReply(data);
  worker.onerror = event => {
    // Without this, Deno ends the process.
    event.preventDefault();
    onEnd(event.message ?? 'it was not started');
  };
  return {
    post: (request, transfer = []) => worker.postMessage(request, transfer),
    hold() {},
    end: () => worker.terminate(),
  };
}

/** @param {Listener} listener @returns {ThreadHandle} */
function openNodeWorker({ onReply, onEnd }) {
  const start = `const { parentPort } = require('node:worker_threads');
const thread = new (${TwinThread})((reply, transfer) => parentPort.postMessage(reply, transfer));
parentPort.on('message', request => thread.receive(request));`;
  const worker = new (nodeThreads().Worker)(start, { eval: true });
  worker.on('message', onReply);
  worker.on('error', (/** @type {any} */ error) => onEnd(`${error.message}`));
  worker.on('exit', () => onEnd('its worker ended'));
  worker.unref();
  return {
    post: (request, transfer = []) => worker.postMessage(request, transfer),
    // A model that does nothing must not keep the process alive.
    hold: isBusy => (isBusy ? worker.ref() : worker.unref()),
    end: () => void worker.terminate(),
  };
}
