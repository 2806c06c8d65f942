// The card of the training: its controls, its numbers and its curve.

/** Points of the curve that are kept; of older ones every second goes. */
const MOST_KEPT = 600;
const RECENT = 100;
/** Milliseconds between two predictions while the model trains. */
const PREDICT_EVERY = 500;

const training = {
  /** [step, loss] of each report. */
  history: [],

  show() {
    $('step').textContent = page.step;
    training.history = training.history.filter(([step]) => step <= page.step);
    if (!training.history.length) $('loss').textContent = '–';
    plot($('plot'), [training.history], { log: true });
  },

  async run() {
    page.running = new AbortController();
    $('start').textContent = 'Stop';
    try {
      const { signal } = page.running;
      const options = { entry: trainer, steps: 1e9, every: 10, signal };
      for await (const report of page.model.fit(page.data.train, options))
        await training.add(report);
    } finally {
      page.running = null;
      $('start').textContent = 'Train';
      training.show();
      await refresh();
    }
  },

  async add({ step, loss, ms }) {
    training.history.push([step, loss]);
    if (training.history.length > MOST_KEPT)
      training.history = training.history.filter((_, i) => i % 2 || i > MOST_KEPT - RECENT);
    $('loss').textContent = loss < 1e-3 ? loss.toExponential(2) : loss.toPrecision(4);
    $('speed').textContent = Number((1000 / ms).toPrecision(3)).toLocaleString('en');
    training.show();
    if (performance.now() - predictedAt > PREDICT_EVERY) await refresh();
  },
};

page.when('loaded', () => {
  $('train').hidden = !trainer;
});
page.when('values', () => training.show());
$('start').onclick = guarded(() => (page.running ? page.stop() : training.run()));
$('reset').onclick = guarded(() => {
  training.history = [];
  return page.reset($('seed').value ? +$('seed').value : undefined);
});
const redraw = () => {
  if (page.model) training.show();
};
matchMedia('(prefers-color-scheme: dark)').onchange = redraw;
window.onresize = redraw;
