// A lost GPU, or a worker that failed: drivers are updated, laptops sleep. The page opens one again,
// and says what is left of the training.

/** How often a GPU is opened that is lost again at once. */
const MOST_OPENED = 3;

/**
 * After every loss: `stop` ends what uses the model, `recovered(words, stopped)` shows the values
 * that came back, `failed` says why nothing came back. `step` is how many the model has made.
 */
function survive(model, { step, stop, recovered, failed }) {
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
/** The same for a page that says all in its status line; `show` shows the values that came back. */
function surviveWith(model, stop, show) {
  const status = document.getElementById('status');
  survive(model, {
    step: () => Math.max(0, ...Object.values(model.progress.steps)),
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

async function reopen(model) {
  for (let opened = 1; ; opened++)
    try {
      return await model.recover();
    } catch (error) {
      if (error.code !== 'device-lost' || opened === MOST_OPENED) throw error;
    }
}

/** What is left after a loss at step `reached`, if the values are those of step `now`. */
function lossWords(reached, now) {
  const steps = count => `${count.toLocaleString('en')} step${count === 1 ? '' : 's'}`;
  const lost = reached - now;
  const left = now ? `The training of ${steps(now)} is all there.` : 'Nothing was lost.';
  const back = `The model is at step ${now.toLocaleString('en')} again: ${steps(lost)} of its training ${lost === 1 ? 'was' : 'were'} lost.`;
  return lost > 0 ? back : left;
}
