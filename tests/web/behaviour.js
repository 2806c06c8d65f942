// Edge cases of a model: a list of observations, the same on every stack.

const x = (n = 18, v = 0.5) => new Float32Array(n).fill(v);
const y = (n = 6, v = 0.25) => new Float32Array(n).fill(v);
const batch = { x: x(), y: y() };
const explosive = { x: x(), y: y(6, 3e38) };
const codeOf = async promise => {
  try {
    return `fine: ${await promise}`;
  } catch (error) {
    return typeof error.code === 'string' ? error.code : error.name;
  }
};
const list = async (iterator, most = Infinity) => {
  const found = [];
  for await (const item of iterator) if (found.push(item.step) >= most) break;
  return found;
};

export default async function behaviour(bundle) {
  const { model, ...loaded } = await loading(bundle);
  const checkpoint = await trained(model, 7);
  return {
    ...loaded,
    inputs: await inputs(bundle, model),
    fit: {
      ...(await dataOfEveryKind(model)),
      ...(await wrongFits(model)),
      ...(await aborts(bundle, model)),
    },
    nan: await notFinite(model, checkpoint),
    ...(await saving(model, checkpoint)),
    during: await savingWhileTraining(model),
    together: await callsAtOnce(model),
    ...(await otherSeeds(bundle, model)),
    profile: await timesPerKernel(model),
    ...(await lostDevice(model)),
    ...(await disposing(bundle, model)),
  };
}

async function loading({ load, meta, device }) {
  const stages = [];
  const model = await load({
    device,
    entries: ['predict'],
    onProgress: ({ stage, done, total }) => {
      if (done === total) stages.push(stage);
    },
  });
  stages.push('loaded');
  // What was compiled while loading, or at the first call, is not compiled again.
  for (let i = 0; i < 2; i++) await model.predict({ x: x() });
  stages.push('predicted');
  for (let i = 0; i < 2; i++) await list(model.fit(() => batch, { steps: 2 }));
  await model.reset();
  const wrong = [['predict', 'toString'], 'predict'].map(entries =>
    codeOf(load({ device, entries })),
  );
  return {
    model,
    stages: [...stages],
    wrongEntries: await Promise.all(wrong),
    meta: [meta.name, meta.entries.train.inputs.x.shape, meta.params['l1.w'].dtype],
  };
}

/** A checkpoint after some steps. */
async function trained(model, steps) {
  await model.reset();
  await list(model.fit(() => batch, { steps }));
  return model.save();
}

async function inputs({ tensor }, model) {
  return {
    shape: await codeOf(model.train({ x: x(17), y: y() })),
    wrongShape: await codeOf(model.train({ x: tensor(x(), [3, 6]), y: y() })),
    rightShape: typeof (await model.train({ x: tensor(x(), [6, 3]), y: y() })).loss[0],
    missing: await codeOf(model.train({ x: x() })),
    unknown: await codeOf(model.train({ x: x(), y: y(), z: y() })),
    notFinite: await codeOf(model.train({ x: x(18, Infinity), y: y() })),
    tooLarge: await codeOf(model.train({ x: Array(18).fill(1e39), y: y() })),
    text: await codeOf(model.train({ x: 'abc', y: y() })),
    entry: await codeOf(model.call('nothing', {})),
    inherited: await codeOf(model.call('constructor', {})),
    noBatch: await codeOf(model.call('train', 5)),
  };
}

async function dataOfEveryKind(model) {
  function* three() {
    for (let i = 0; i < 3; i++) yield batch;
  }
  async function* two() {
    yield batch;
    yield batch;
  }
  await model.reset();
  return {
    reports: await list(model.fit(() => batch, { steps: 25, every: 10 })),
    more: await list(model.fit([batch, batch], { steps: 5, every: 10 })),
    ends: await list(model.fit(three(), { every: 1 })),
    asyncData: await list(model.fit(two(), { every: 1 })),
    left: await list(
      model.fit(() => batch, { steps: 1000, every: 5 }),
      2,
    ),
    ended: await codeOf(list(model.fit([batch].values(), { steps: 1000, resume: true }))),
    nothing: await list(model.fit([], { steps: 5 })),
  };
}

async function wrongFits(model) {
  const fit = (data, options) => codeOf(list(model.fit(data, options)));
  return {
    badSeeds: await Promise.all(
      [-1, 1.5, 2 ** 32].map(seed => fit(() => batch, { steps: 1, seed })),
    ),
    noSteps: await fit({ x: x(36), y: y(12) }),
    badSteps: await fit(() => batch, { steps: 1.5 }),
    badEntry: await fit(() => batch, { entry: 'predict', steps: 1 }),
    rows: await fit({ x: x(36), y: y() }, { steps: 1 }),
    few: await fit({ x: x(9), y: y(3) }, { steps: 1 }),
    data: await fit(() => ({ x: x(), y: y(5) }), { steps: 1 }),
  };
}

async function aborts({ load, device }, model) {
  const controller = new AbortController();
  const untilAborted = async () => {
    const options = { every: 1, signal: controller.signal };
    for await (const { step } of model.fit(() => batch, options)) if (step > 60) controller.abort();
  };
  return {
    aborted: await codeOf(untilAborted()),
    abortedBefore: await codeOf(list(model.fit(() => batch, { signal: AbortSignal.abort() }))),
    loadAborted: await codeOf(load({ device, signal: AbortSignal.abort() })),
  };
}

/** A NaN is undone: the parameters are those before the step, and the count too. */
async function notFinite(model, checkpoint) {
  await model.restore(checkpoint);
  const data = step => (step < 12 ? batch : explosive);
  const seen = {
    code: await codeOf(list(model.fit(data, { steps: 20, every: 20 }))),
    steps: model.progress.steps.train,
    text: await model.train(explosive).catch(error => error.message),
  };
  model.checkFinite = false;
  seen.unchecked = Number.isFinite((await model.train(explosive)).loss[0]);
  model.checkFinite = true;
  return seen;
}

async function saving(model, checkpoint) {
  await model.restore(checkpoint);
  const damaged = checkpoint.slice();
  damaged[damaged.length - 1] ^= 1;
  const saved = {
    steps: model.progress.steps.train,
    same: `${await model.save()}` === `${checkpoint}`,
    damaged: await codeOf(model.restore(damaged)),
    cut: await codeOf(model.restore(checkpoint.subarray(0, 500))),
  };
  const values = await model.params();
  const first = { 'l1.w': values['l1.w'] };
  const params = {
    names: Object.keys(values),
    shape: values['l1.w'].shape,
    missing: await codeOf(model.loadParams(first)),
    some: await codeOf(model.loadParams({ ...first, other: 1 }, { strict: false })),
    unknown: await codeOf(model.loadParams({ ...values, other: 1 })),
    shaped: await codeOf(model.loadParams({ ...values, 'l1.w': new Float32Array(3) })),
  };
  return { saved, params };
}

/** A checkpoint made during training belongs to the step it names. */
async function savingWhileTraining(model) {
  await model.reset();
  const saved = [];
  const training = list(model.fit(() => batch, { steps: 100, every: 50 }));
  for (let i = 0; i < 5; i++) {
    await new Promise(done => setTimeout(done, 3));
    saved.push(await model.save());
  }
  await training;
  for (const bytes of saved) {
    await model.restore(bytes);
    const [step] = (await model.state())['opt/opt/step'];
    if (step !== (model.progress.steps.train ?? 0)) return false;
  }
  return true;
}

/** Calls at the same time run one after the other. */
async function callsAtOnce(model) {
  await model.reset();
  const together = await Promise.all([
    model.train(batch),
    model.train(batch),
    model.predict({ x: x(6) }),
  ]);
  await model.reset();
  const alone = [
    await model.train(batch),
    await model.train(batch),
    await model.predict({ x: x(6) }),
  ];
  return JSON.stringify(together) === JSON.stringify(alone);
}

async function otherSeeds({ load, device }, model) {
  const firstOf = async other => `${(await other.params())['l1.w']}`;
  await model.reset(11);
  const eleven = await firstOf(model);
  const other = await load({ device, seed: 11 });
  const given = await load({ device, weights: await other.save({ optimizer: false }) });
  const weights = { 'l1.w': (await model.params())['l1.w'] };
  return {
    seeds: [
      (await firstOf(other)) === eleven,
      (await firstOf(given)) === eleven,
      (await firstOf(await load({ device }))) === eleven,
    ],
    badSeeds: await Promise.all([-1, 1.5, '7', {}].map(seed => codeOf(load({ device, seed })))),
    weights: await codeOf(load({ device, weights })),
    profileName: await codeOf(load({ device, profile: 'quantum' })),
    memory: await codeOf(load({ device, maxBytes: 100 })),
  };
}

/** Without a trace in the parameters. */
async function timesPerKernel(model) {
  const before = `${(await model.params())['l1.w']}`;
  const { rows } = await model.profile('train', 2);
  return [
    rows.length > 3,
    rows.every(row => row.ms >= 0),
    /:\d+$/.test(rows[0].at),
    `${(await model.params())['l1.w']}` === before,
  ];
}

/** Nothing is reported as done; recover continues from the snapshot: steps made by calls are lost. */
async function lostDevice(model) {
  await model.reset();
  await list(model.fit(() => batch, { steps: 3 }));
  await model.train(batch);
  await model.snapshot();
  const four = await model.save();
  for (let step = 0; step < 3; step++) await model.train(batch);
  model.device.destroy();
  const lost = {
    train: await codeOf(model.train(batch)),
    fit: await codeOf(list(model.fit(() => batch, { steps: 2 }))),
    save: await codeOf(model.save()),
    write: await codeOf(model.reset()),
    reason: (await model.lost).reason,
  };
  const { steps, lost: again } = await model.recover();
  const recovered = {
    steps: [model.progress.steps.train, steps.train, again.train],
    same: `${await model.save()}` === `${four}`,
    trains: typeof (await model.train(batch)).loss[0],
  };
  return { lost, recovered };
}

async function disposing({ WgccError }, model) {
  const running = codeOf(model.train(batch));
  await Promise.resolve();
  model.dispose();
  return {
    closed: [await running, await codeOf(model.train(batch)), await codeOf(model.params())],
    error: [new WgccError('a', 'b') instanceof Error, await codeOf(model.store())],
  };
}
