// How a model behaves at its edges: a list of things observed, the same on every stack.

const x = (n = 18, v = 0.5) => new Float32Array(n).fill(v),
  y = (n = 6, v = 0.25) => new Float32Array(n).fill(v);
const codeOf = async promise => {
  try {
    return `fine: ${await promise}`;
  } catch (error) {
    return typeof error.code == 'string' ? error.code : error.name;
  }
};
const list = async (iterator, most = Infinity) => {
  const found = [];
  for await (const item of iterator) if (found.push(item.step) >= most) break;
  return found;
};

export default async function behaviour({ load, tensor, meta, device, WgccError }) {
  const stages = new Set(),
    seen = {};
  const model = await load({
    device,
    onProgress: ({ stage, done, total }) => {
      stages.add(stage);
      seen.progress = `${done}/${total}`;
    },
  });
  seen.stages = [...stages].sort();
  seen.meta = [meta.name, meta.entries.train.inputs.x.shape, meta.params['l1.w'].dtype];

  // inputs
  seen.inputs = {
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

  // fit: reports, ends, aborts, data of every kind
  await model.reset();
  const batch = { x: x(), y: y() },
    abort = new AbortController();
  seen.fit = {
    reports: await list(model.fit(() => batch, { steps: 25, every: 10 })),
    more: await list(model.fit([batch, batch], { steps: 5, every: 10 })),
    ends: await list(
      model.fit(
        (function* () {
          for (let i = 0; i < 3; i++) yield batch;
        })(),
        { every: 1 },
      ),
    ),
    asyncData: await list(
      model.fit(
        (async function* () {
          yield batch;
          yield batch;
        })(),
        { every: 1 },
      ),
    ),
    left: await list(
      model.fit(() => batch, { steps: 1000, every: 5 }),
      2,
    ),
    ended: await codeOf(list(model.fit([batch].values(), { steps: 1000, resume: true }))),
    nothing: await list(model.fit([], { steps: 5 })),
    badSeeds: await Promise.all([-1, 1.5, 2 ** 32].map(seed => codeOf(list(model.fit(() => batch, { steps: 1, seed }))))),
    noSteps: await codeOf(list(model.fit({ x: x(36), y: y(12) }))),
    badSteps: await codeOf(list(model.fit(() => batch, { steps: 1.5 }))),
    badEntry: await codeOf(list(model.fit(() => batch, { entry: 'predict', steps: 1 }))),
    rows: await codeOf(list(model.fit({ x: x(36), y: y() }, { steps: 1 }))),
    few: await codeOf(list(model.fit({ x: x(9), y: y(3) }, { steps: 1 }))),
    data: await codeOf(list(model.fit(() => ({ x: x(), y: y(5) }), { steps: 1 }))),
    aborted: await codeOf(
      (async () => {
        for await (const { step } of model.fit(() => batch, { every: 1, signal: abort.signal }))
          if (step > 60) abort.abort();
      })(),
    ),
    abortedBefore: await codeOf(list(model.fit(() => batch, { signal: AbortSignal.abort() }))),
    loadAborted: await codeOf(load({ device, signal: AbortSignal.abort() })),
  };

  // a NaN is undone: the parameters are those before the step, and the count too
  await model.reset();
  await list(model.fit(() => batch, { steps: 7 }));
  const before = await model.save();
  const nan = await codeOf(
    list(model.fit(step => (step < 12 ? batch : { x: x(), y: y(6, 3e38) }), { steps: 20, every: 20 })),
  );
  seen.nan = {
    code: nan,
    steps: model.progress.steps.train,
    text: await model.train({ x: x(), y: y(6, 3e38) }).catch(error => error.message),
  };
  model.checkFinite = false;
  seen.nan.unchecked = Number.isFinite((await model.train({ x: x(), y: y(6, 3e38) })).loss[0]);
  model.checkFinite = true;

  // saving and restoring
  await model.restore(before);
  seen.saved = { steps: model.progress.steps.train, same: `${await model.save()}` == `${before}` };
  const damaged = before.slice();
  damaged[damaged.length - 1] ^= 1;
  seen.saved.damaged = await codeOf(model.restore(damaged));
  seen.saved.cut = await codeOf(model.restore(before.subarray(0, 500)));
  const params = await model.params();
  seen.params = {
    names: Object.keys(params),
    shape: params['l1.w'].shape,
    missing: await codeOf(model.loadParams({ 'l1.w': params['l1.w'] })),
    some: await codeOf(model.loadParams({ 'l1.w': params['l1.w'], other: 1 }, { strict: false })),
    unknown: await codeOf(model.loadParams({ ...params, other: 1 })),
    shaped: await codeOf(model.loadParams({ ...params, 'l1.w': new Float32Array(3) })),
  };

  // a checkpoint taken while training goes on stands at the step it names
  await model.reset();
  const saved = [],
    stands = [],
    training = list(model.fit(() => batch, { steps: 100, every: 50 }));
  for (let i = 0; i < 5; i++) {
    await new Promise(done => setTimeout(done, 3));
    saved.push(await model.save());
  }
  await training;
  for (const bytes of saved) {
    await model.restore(bytes);
    stands.push((await model.state())['opt/opt/step'][0] == (model.progress.steps.train ?? 0));
  }
  seen.during = stands.every(Boolean);

  // calls at the same time run one after the other
  await model.reset();
  const together = await Promise.all([model.train(batch), model.train(batch), model.predict({ x: x(6) })]);
  await model.reset();
  const alone = [await model.train(batch), await model.train(batch), await model.predict({ x: x(6) })];
  seen.together = JSON.stringify(together) == JSON.stringify(alone);

  // other seeds, other weights
  await model.reset(11);
  const eleven = (await model.params())['l1.w'],
    other = await load({ device, seed: 11 }),
    given = await load({ device, weights: await other.save({ optimizer: false }) });
  seen.seeds = [
    `${(await other.params())['l1.w']}` == `${eleven}`,
    `${(await given.params())['l1.w']}` == `${eleven}`,
    `${(await load({ device }).then(m => m.params()))['l1.w']}` == `${eleven}`,
  ];
  seen.badSeeds = await Promise.all([-1, 1.5, '7', {}].map(seed => codeOf(load({ device, seed }))));
  seen.weights = await codeOf(load({ device, weights: { 'l1.w': eleven } }));
  seen.profileName = await codeOf(load({ device, profile: 'quantum' }));
  seen.memory = await codeOf(load({ device, maxBytes: 100 }));

  // times per kernel, without a trace in the parameters
  const kernels = await model.profile('train', 2);
  seen.profile = [
    kernels.rows.length > 3,
    kernels.rows.every(row => row.ms >= 0),
    /:\d+$/.test(kernels.rows[0].at),
    `${(await model.params())['l1.w']}` == `${eleven}`,
  ];

  // a lost device: nothing is reported as done; recover goes on from the snapshot
  await model.reset();
  await list(model.fit(() => batch, { steps: 4 }));
  await model.snapshot();
  const four = await model.save();
  await list(model.fit(() => batch, { steps: 3 }));
  model.device.destroy();
  seen.lost = {
    train: await codeOf(model.train(batch)),
    fit: await codeOf(list(model.fit(() => batch, { steps: 2 }))),
    save: await codeOf(model.save()),
    write: await codeOf(model.reset()),
    reason: (await model.lost).reason,
  };
  await model.recover();
  seen.recovered = {
    steps: model.progress.steps.train,
    same: `${await model.save()}` == `${four}`,
    trains: typeof (await model.train(batch)).loss[0],
  };

  const running = codeOf(model.train(batch));
  await Promise.resolve();
  model.dispose();
  seen.closed = [await running, await codeOf(model.train(batch)), await codeOf(model.params())];
  seen.error = [new WgccError('a', 'b') instanceof Error, await codeOf(model.store())];
  return seen;
}
