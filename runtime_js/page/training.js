// The card of the training: its controls, and the loop that trains up to a target.

/** Steps of the first part, whose time says how often to report. */
const FIRST_STEPS = 4;
/** Milliseconds between reports, predictions while the model trains, and measurements. */
const REPORT_EVERY = 150;
const PREDICT_EVERY = 500;
const MEASURE_EVERY = 100;
/** Points of the curve of a run that is quick. */
const LEAST_POINTS = 100;
/** Of the time, the share that measurements may take. */
const MEASURE_SHARE = 0.2;

const training = {
  predictedAt: 0,
  measuredAt: 0,
  measureTook: 0,
  /** Milliseconds of a step. */
  ms: 1,
  from: 0,
  until: 0,
  /** Whether the last one ended with the GPU. */
  isCut: false,

  /** Trains, for the steps of the target by default; `words` are said while it does. */
  start(steps = targetSteps(), words = 'Training…') {
    const run = training.run(steps, words);
    page.ended = run.catch(() => {});
    return run;
  },
  async run(steps, words) {
    const { train } = page.data;
    const { signal } = beginRun(words);
    try {
      training.from = page.step;
      training.until = page.step + steps;
      await runPart(train, Math.min(FIRST_STEPS, steps), 1, signal);
      await runPart(train, training.until - page.step, reportEvery(steps), signal);
      await measure();
      say(`Trained to step ${page.step.toLocaleString('en')}.`);
    } catch (error) {
      training.isCut = error.code === 'device-lost';
      throw error;
    } finally {
      page.running = null;
      await page.announce('running');
      showProgress();
      await page.announce('values');
    }
  },
};

function beginRun(words) {
  page.running = new AbortController();
  training.isCut = false;
  say(words);
  page.announce('running');
  return page.running;
}

/** Steps between reports: often enough for a smooth curve, seldom enough for speed. */
function reportEvery(steps) {
  if ($('speed-limit').value !== 'full') return 1;
  return Math.ceil(Math.min(steps / LEAST_POINTS, REPORT_EVERY / training.ms));
}

async function runPart(train, steps, every, signal) {
  if (steps <= 0) return;
  const options = { entry: trainer, steps, every, signal };
  let last = performance.now();
  for await (const report of page.model.fit(train, options)) {
    await showReport(report);
    last = await limitSpeed(last, signal);
  }
}
/** Waits as long as the chosen speed asks for. */
async function limitSpeed(last, signal) {
  const perSecond = Number($('speed-limit').value);
  const rest = perSecond ? 1000 / perSecond - (performance.now() - last) : 0;
  if (rest > 0) await new Promise(done => setTimeout(done, rest));
  signal.throwIfAborted();
  return performance.now();
}

async function showReport({ step, outputs, ms }) {
  const perSecond = Number($('speed-limit').value);
  training.ms = Math.max(ms, perSecond ? 1000 / perSecond : 0);
  curves.add('training', step, outputs);
  const now = performance.now();
  const pause = Math.max(MEASURE_EVERY, training.measureTook / MEASURE_SHARE);
  if (now - training.measuredAt > pause) await measure();
  $('speed').textContent = Number((1000 / training.ms).toPrecision(3)).toLocaleString('en');
  showProgress();
  if (now - training.predictedAt > PREDICT_EVERY) {
    await page.announce('learned');
    training.predictedAt = performance.now();
  }
}
async function measure() {
  const held = page.data?.heldOut;
  if (!held || heldOut.reason(held)) return;
  const started = performance.now();
  curves.add('heldOut', page.step, await heldOut.measure(held));
  training.measuredAt = performance.now();
  training.measureTook = training.measuredAt - started;
}

/** Steps that the target asks for. */
function targetSteps() {
  const count = Math.max(1, Math.floor(Number($('target').value) || 1));
  return $('target-unit').value === 'epochs' ? count * stepsPerEpoch() : count;
}
function stepsPerEpoch() {
  const rows = rowCount(trainer, page.data.train.arrays ?? page.data.train);
  return Math.max(1, Math.floor(rows / (plan.entries[trainer].rows?.count ?? 1)));
}

function showProgress() {
  $('step').textContent = page.step;
  const { from, until } = training;
  const done = page.step - from;
  $('progress').value = until > from ? Math.min(1, done / (until - from)) : 0;
  const seconds = (training.ms * (until - page.step)) / 1000;
  $('left').textContent = page.running && seconds > 1 ? `about ${timeWords(seconds)} left` : '';
  curves.show();
}
const timeWords = seconds =>
  seconds < 90 ? countOf(Math.ceil(seconds), 'second') : countOf(Math.ceil(seconds / 60), 'minute');

/** Train is off without data. */
function showControls() {
  $('start').textContent = page.running ? 'Stop' : 'Train';
  $('start').disabled = !page.data;
  const { label, isInvented } = page.data ?? {};
  $('trains-on').textContent = page.data
    ? `Learns from${isInvented ? ' invented data: choose your own above' : `: ${label}`}.`
    : missingData();
  $('no-held-out').textContent = heldOut.reason(page.data?.heldOut);
}

/** Why Train is off. */
function missingData() {
  if (dataPanel.isAsking) return 'First answer the question about the new data, above.';
  if (!$('data-problem').hidden) return 'The data was not read: see above.';
  return 'There is no data: choose some first.';
}

page.when('loaded', () => {
  $('train').hidden = !trainer;
  if (trainer) makeCurves();
  showProgress();
});
page.when('data', () => {
  curves.heldOut = {};
  showControls();
  showProgress();
});
page.when('running', showControls);
page.when('values', () => {
  curves.cut();
  showProgress();
});
page.when('reset', () => {
  curves.clear();
  training.from = training.until = 0;
});
$('start').onclick = guarded(() => {
  if (page.running) return page.stop();
  $('recovered').textContent = '';
  return training.start();
});
$('reset').onclick = guarded(async () => {
  const seed = $('seed').value;
  await page.reset(seed ? +seed : undefined);
  say(seed ? `Starts again, from seed ${seed}.` : 'Starts again.');
});
page.when('look', () => trainer && curves.show());
