// `fit` as a promise and as a loop: histories, epochs, validation, aborting, what is refused.

const said = promise =>
  Promise.resolve(promise).then(
    value => ['fine', `${value}`],
    error => [error instanceof DOMException ? error.name : error.code, error.field, error.message],
  );
const later = ms => new Promise(resolve => setTimeout(resolve, ms));
const shown = ({ reports, stopped, steps, losses, loss }) => ({
  steps,
  stopped,
  isLoss: loss === losses.at(-1),
  losses: losses.length === reports.length && losses.every(Number.isFinite),
});

export default async function fitting({ load, device }, { data, whole }) {
  const model = await load({ device });
  const found = {
    ...(await histories(model, data)),
    ...(await epochs(model, data)),
    ...(await validation(model, data, whole)),
    refused: await refusals(model, data),
    ...(await busy(model, data)),
    ...(await slowData(model, data)),
    closed: await closing(model, data),
  };
  model.dispose();
  return found;
}

async function histories(model, data) {
  const lazy = model.fit(data, { steps: 25 });
  await later(20);
  const before = model.progress.steps.train ?? 0;
  const awaited = shown(await lazy);
  const again = (await lazy).reports === (await lazy.then(history => history)).reports;
  const run = model.fit(data, { steps: 30 });
  const read = [];
  for await (const { step, outputs } of run) read.push([step, Object.keys(outputs)]);
  const iterated = shown(await run);
  const left = model.fit(data, { steps: 30 });
  for await (const _ of left) break;
  const part = model.fit(data, { steps: 30 });
  await part.next();
  await part;
  const never = model.fit(data, { steps: 30 });
  await never.return();
  const steps = model.progress.steps.train;
  return {
    before,
    awaited,
    again,
    read,
    iterated,
    left: shown(await left),
    rest: shown(await part),
    never: shown(await never),
    unchanged: model.progress.steps.train - steps,
    finally: await model
      .fit(data, { steps: 1 })
      .finally(() => 7)
      .then(({ stopped }) => stopped),
    caught: await model.fit(data, { steps: 0 }).catch(({ code }) => code),
  };
}

async function epochs(model, data) {
  await model.reset();
  const batches = [0, 1, 2].map(i => rowsOf(data, 8 * i, 8 * i + 8));
  const arrays = await model.fit(data, { epochs: 2, every: 4 });
  const list = await model.fit(batches, { epochs: 3, every: 100 });
  const once = await model.fit(batches.values(), { epochs: 1, every: 2 });
  const ended = await model.fit(batches, { every: 2 });
  return { epochs: [arrays, list, once, ended].map(({ steps, stopped }) => [steps, stopped]) };
}

async function validation(model, data, whole) {
  await model.reset();
  const options = { steps: 20, every: 5, validationEvery: 10 };
  const { reports } = await model.fit(data, { ...options, validation: data });
  const wanted = await model.eval(data);
  const calls = [];
  const own = await model.fit(data, {
    steps: 2,
    every: 1,
    validation: async given => {
      calls.push(given === model);
      return { loss: (await given.eval(data)).loss[0] };
    },
  });
  const one = await model.fit(data, { steps: 1, validation: () => 3 });
  const mixed = { validation: { x: whole }, validationEntry: 'spread' };
  const spread = await model.fit(data, { steps: 1, ...mixed });
  return {
    validated: reports.map(({ step, validation }) => [step, validation && Object.keys(validation)]),
    isEval: Object.entries(reports.at(-1).validation).every(([n, v]) => v === wanted[n][0]),
    own: [calls, own.reports.map(({ validation }) => typeof validation.loss)],
    one: one.reports[0].validation,
    spread: spread.reports[0].validation,
  };
}

async function refusals(model, data) {
  const steps = model.progress.steps.train;
  const refused = {};
  const few = rowsOf(data, 0, 3);
  const cases = {
    unknown: { step: 5 },
    strange: { steps: 1, zzz: 1 },
    both: { steps: 1, epochs: 1 },
    endless: { epochs: 1 },
    fraction: { epochs: 1.5 },
    entry: { steps: 1, validation: data, validationEntry: 'test' },
    name: { steps: 1, validation: { ...data, labels: data.label } },
    list: { steps: 1, validation: [1, 2] },
    mixed: { steps: 1, validation: { x: few.x }, validationEntry: 'spread' },
  };
  for (const [name, options] of Object.entries(cases))
    refused[name] = await said(model.fit(name === 'endless' ? () => data : data, options));
  // Nothing was trained.
  refused.made = model.progress.steps.train - steps;
  return refused;
}

async function busy(model, data) {
  const first = model.fit(data, { steps: 40, every: 10 });
  await first.next();
  const second = await said(model.fit(data, { steps: 1 }));
  const history = await first;
  const free = await said(model.fit(data, { steps: 1 }).then(({ stopped }) => stopped));
  const stopper = new AbortController();
  const third = model.fit(data, { steps: 40, signal: stopper.signal });
  await third.next();
  stopper.abort();
  const after = await said(model.fit(data, { steps: 1 }).then(({ stopped }) => stopped));
  return { busy: [second, history.stopped, free, after, (await said(third))[0]] };
}

/** Whatever ends a training closes the data that it reads: which cases did. */
async function closing(model, data) {
  const batch = rowsOf(data, 0, 8);
  const closed = [];
  const endless = async function* (name, batches = [batch]) {
    try {
      for (let i = 0; ; i++) yield batches[Math.min(i, batches.length - 1)];
    } finally {
      closed.push(name);
    }
  };
  const plain = function* () {
    yield* [batch, batch, batch];
  };
  const counted = {
    [Symbol.iterator]: () => ({
      next: () => ({ done: false, value: batch }),
      return: () => closed.push('return') && { done: true },
    }),
  };
  await model.fit(endless('steps'), { steps: 2 });
  for await (const _ of model.fit(endless('left'), { steps: 9, every: 1 })) break;
  await said(model.fit(endless('wrong', [batch, { x: 1 }]), { steps: 9 }));
  const stopper = new AbortController();
  const aborted = said(model.fit(endless('signal'), { signal: stopper.signal, every: 2 ** 20 }));
  await later(20);
  stopper.abort();
  await aborted;
  await model.fit(counted, { steps: 3 });
  const once = plain();
  await model.fit(once, { steps: 1 });
  await later(20);
  return [...closed, once.next().done ? 'generator' : 'open'];
}

/** Aborting does not wait for a batch that never comes, and calls for no further one. */
async function slowData(model, data) {
  const batch = rowsOf(data, 0, 8);
  const start = model.progress.steps.train;
  const stopper = new AbortController();
  let release;
  let asked = 0;
  const slow = step => {
    asked++;
    if (step < start + 3) return batch;
    return new Promise(resolve => {
      release = () => resolve(batch);
    });
  };
  const training = said(model.fit(slow, { steps: 100, every: 1, signal: stopper.signal }));
  while (!release) await later(5);
  const started = performance.now();
  stopper.abort();
  const [name] = await training;
  const ms = performance.now() - started;
  const made = model.progress.steps.train - start;
  release();
  await later(20);
  const [step] = (await model.state())['opt/opt/step'];
  return { aborted: { name, made, asked, isCounted: step === start + made, isQuick: ms < 2000 } };
}

const rowsOf = ({ x, label }, from, to) => ({
  x: x.slice(3 * from, 3 * to),
  label: label.slice(from, to),
});
