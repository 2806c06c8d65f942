// A lost GPU, or a worker that failed: drivers are updated, laptops sleep. The page opens one again,
// and says what is left of the training.

import { problemWords } from './problems.js';

/**
 * @typedef {object} Survivor what a page does after a loss
 * @property {() => number} step how many the model has made
 * @property {() => any} stop ends what uses the model
 * @property {(words: string, stopped: any) => any} recovered shows the values that came back
 * @property {(error: any, tryAgain: () => Promise<void>) => any} failed says why nothing came back
 */

/** How often a GPU is opened that is lost again at once. */
const MOST_OPENED = 3;

/** @param {any} model @param {Survivor} survivor */
export function survive(model, { step, stop, recovered, failed }) {
  const watch = () => model.lost.then(recover);
  async function recover() {
    const what = model.adapter.kind === 'wasm' ? 'The worker that computes' : 'The GPU';
    const stopped = await stop();
    const reached = step();
    try {
      await reopen(model);
    } catch (error) {
      return failed(error, recover);
    }
    watch();
    await recovered(`${what} was lost and is back. ${lossWords(reached, step())}`, stopped);
  }
  watch();
}

/**
 * The same for a page that says all in its status line.
 * @param {any} model @param {() => any} stop @param {() => any} show shows the values that came back
 */
export function surviveWith(model, stop, show) {
  const status = /** @type {HTMLElement} */ (document.getElementById('status'));
  survive(model, {
    step: () => Math.max(0, ...Object.values(model.progress.steps).map(Number)),
    stop,
    recovered: async words => {
      await show();
      status.textContent = words;
    },
    failed: error => {
      status.textContent = problemWords(error);
    },
  });
}

/** @param {any} model */
async function reopen(model) {
  for (let opened = 1; ; opened++)
    try {
      return await model.recover();
    } catch (error) {
      const { code } = /** @type {any} */ (error);
      if (code !== 'device-lost' || opened === MOST_OPENED) throw error;
    }
}

/** What is left after a loss at step `reached`, if the values are those of step `now`. @param {number} reached @param {number} now */
function lossWords(reached, now) {
  const lost = reached - now;
  const steps = (/** @type {number} */ count) =>
    `${count.toLocaleString('en')} step${count === 1 ? '' : 's'}`;
  if (lost <= 0) return now ? `The training of ${steps(now)} is all there.` : 'Nothing was lost.';
  const were = `${steps(lost)} of its training ${lost === 1 ? 'was' : 'were'} lost.`;
  return `The model is at step ${now.toLocaleString('en')} again: ${were}`;
}
