// A model in a worker: the same as one in the page.

const said = promise =>
  Promise.resolve(promise).then(
    () => ['fine'],
    error => [error.code ?? error.name, error.field, error.name, error.message],
  );
const later = ms => new Promise(resolve => setTimeout(resolve, ms));
const rowsOf = ({ x, label }, from, to) => ({
  x: x.slice(3 * from, 3 * to),
  label: label.slice(from, to),
});

export default async function remote({ load, WgccError }, { device, data: given }) {
  const data = { x: Float32Array.from(given.x), label: Int32Array.from(given.label) };
  const events = [];
  const onProgress = ({ stage }) => events.push(stage);
  const here = await load({ device });
  const model = await load({ device, worker: true, onProgress });
  const found = {
    stages: [...new Set(events)],
    adapter: [model.adapter.kind === here.adapter.kind, model.device === undefined],
    same: await compare(here, model, data),
    ...(await training(model, data)),
    errors: await errors(model, data, WgccError),
    ...(await aborts(load, model, data, device)),
    written: [await textOf(here), await textOf(model)],
    read: [await trainedOnFile(here), await trainedOnFile(model)],
  };
  here.dispose();
  const running = said(model.fit(data, { steps: 1e6 }));
  await later(20);
  model.dispose();
  found.closed = [(await running)[0], (await said(model.params()))[0]];
  return found;
}

async function textOf(model) {
  let text = '';
  for await (const letter of model.generate('a', { entry: 'next', steps: 4 })) text += letter;
  for await (const letter of model.generate('a', { entry: 'next' })) {
    text += letter;
    break;
  }
  const wrong = await model
    .generate('z', { entry: 'next' })
    .next()
    .catch(({ code, field }) => `${code} ${field}`);
  return [text, wrong];
}

/** A table is read on the page, whichever thread trains with it. */
async function trainedOnFile(model) {
  const lines = Array.from({ length: 16 }, (_, i) => `${i},${(i * 7) % 5},1,${i % 2}`);
  const file = new File([['x0,x1,x2,label', ...lines].join('\n')], 'table.csv');
  const data = await model.readData(file, { scale: true });
  await model.reset(1);
  const { losses } = await model.fit(data, { steps: 4, every: 2 });
  const { mean } = model.preparation.inputs.x;
  model.preparation = null;
  return JSON.stringify([data.rows, losses, mean]);
}

async function compare(here, model, data) {
  const text = value =>
    JSON.stringify(value, (_, item) => (ArrayBuffer.isView(item) ? Array.from(item) : item));
  const seen = [];
  for (const one of [here, model]) {
    const { losses, stopped } = await one.fit(data, { steps: 20, every: 5, seed: 3 });
    const { reports } = await one.fit(data, { epochs: 1, every: 2, validation: data });
    const outputs = await one.eval(data);
    const nested = await one.predict({ x: [[1, 2, 3]], scale: 1 });
    const saved = await one.save();
    await one.reset(5);
    const drawn = await one.params();
    await one.restore(saved);
    const { shape } = nested.y;
    const validations = reports.map(({ validation }) => validation);
    seen.push(
      text([losses, stopped, validations, outputs, nested, shape, saved, drawn, one.progress]),
    );
  }
  return seen[0] === seen[1];
}

async function training(model, data) {
  await model.reset();
  const batches = [0, 1, 2].map(i => rowsOf(data, 8 * i, 8 * i + 8));
  const steps = [];
  for await (const { step } of model.fit(data, { steps: 30 })) steps.push(step);
  const asked = [];
  await model.fit(step => asked.push(step) && batches[step % 3], { steps: 4 });
  const list = await model.fit(batches, { epochs: 2, every: 4 });
  const once = await model.fit(batches.values(), { every: 2 });
  const own = await model.fit(data, {
    steps: 1,
    validation: async other => (await other.eval(data)).loss[0],
  });
  for await (const _ of model.fit(data, { steps: 30 })) break;
  let isClosed = false;
  const endless = (function* () {
    try {
      for (;;) yield batches[0];
    } finally {
      isClosed = true;
    }
  })();
  await model.fit(endless, { steps: 3 });
  model.checkFinite = false;
  await model.snapshot();
  return {
    steps,
    asked: asked.slice(0, 4),
    list: [list.steps, list.stopped],
    once: [once.steps, once.stopped],
    own: Object.keys(own.reports[0].validation),
    progress: model.progress.steps.train,
    checkFinite: model.checkFinite,
    isClosed,
  };
}

async function errors(model, data, WgccError) {
  const first = model.fit(data, { steps: 100 });
  await first.next();
  const busy = await said(model.fit(data, { steps: 1 }));
  await first.return();
  const wrong = await model.eval({ x: data.x }).catch(error => error);
  return {
    busy: busy[0],
    missing: [wrong instanceof WgccError, wrong.code, wrong.field, wrong.message],
    option: (await said(model.fit(data, { step: 1 }))).slice(0, 2),
    data: (
      await said(model.fit(() => Promise.reject(new RangeError('no data')), { steps: 1 }))
    ).slice(2),
    output: (await said(model.predict({ x: data.x, scale: 1 }, { output: 'gpu' })))[0],
  };
}

async function aborts(load, model, data, device) {
  const stopper = new AbortController();
  const waiting = said(
    model.fit(() => new Promise(() => {}), { steps: 5, signal: stopper.signal }),
  );
  await later(50);
  stopper.abort(new Error('enough'));
  const signal = AbortSignal.abort();
  return {
    aborted: (await waiting)[3],
    free: (await said(model.fit(data, { steps: 1 })))[0],
    loading: (await said(load({ device, worker: true, signal })))[2],
  };
}
