// A device that is lost after a training ended in some way: what `recover` brings back.

export default async function lost({ load, device = navigator.gpu }) {
  const seen = {};
  for (const [name, prepare] of Object.entries(CASES)) {
    const model = await load({ device });
    seen[name] = await loseAfter(model, prepare);
    model.dispose();
  }
  return seen;
}

const STEPS = 6;
const batchOf = step => ({
  x: Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + step)),
  y: Float32Array.from({ length: 8 }, (_, i) => Math.cos(3 * i + step)),
});
const train = (model, options) => model.fit(batchOf, { steps: STEPS, every: 1, ...options });
const everything = async model => JSON.stringify([await model.params(), await model.state()]);
const codeOf = promise =>
  promise.then(
    () => 'done',
    ({ code, name }) => code ?? name,
  );

async function lose(model) {
  model.device.destroy();
  await model.lost;
}

/** Each leaves a model that has trained; a case may have its own way to lose the device. */
const CASES = {
  finished: model => train(model),
  async left(model) {
    for await (const { step } of train(model, { steps: 100 })) if (step === STEPS) break;
  },
  async aborted(model) {
    const stop = new AbortController();
    const running = (async () => {
      for await (const { step } of train(model, { steps: 100, signal: stop.signal }))
        if (step === STEPS) stop.abort();
    })();
    await codeOf(running);
  },
  /** The data fails after some steps. */
  async failed(model) {
    const data = step => {
      if (step < STEPS) return batchOf(step);
      throw RangeError('no more data');
    };
    await codeOf(model.fit(data, { every: 1 }));
  },
  async twice(model) {
    await train(model);
    await lose(model);
    await model.recover();
  },
  async whileSaving(model) {
    await train(model);
    return async () => {
      const saving = codeOf(model.save());
      model.device.destroy();
      return { code: await saving };
    };
  },
  async restored(model) {
    await train(model);
    const file = await model.save();
    await model.reset(3);
    await model.restore(file);
  },
  async written(model) {
    await train(model);
    const values = await model.params();
    const changed = Object.entries(values).map(([name, list]) => [name, list.map(v => v / 2)]);
    await model.loadParams(Object.fromEntries(changed));
  },
  async byHand(model) {
    await train(model);
    for (let step = 0; step < 2; step++) await model.train(batchOf(step));
  },
  without: model => train(model, { snapshot: 0 }),
};

async function loseAfter(model, prepare) {
  const loseOtherwise = await prepare(model);
  const before = await everything(model);
  const isOwn = typeof loseOtherwise === 'function';
  const more = isOwn ? await loseOtherwise() : await lose(model);
  const { steps, lost } = await model.recover();
  const isSame = (await everything(model)) === before;
  const counted = model.progress.steps.train ?? 0;
  if (counted !== (steps.train ?? 0)) throw Error(`${counted} steps, not ${steps.train}`);
  return { steps: counted, lost: lost.train ?? 0, isSame, ...more };
}
