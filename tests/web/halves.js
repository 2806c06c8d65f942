// Trains the same steps whole and in halves, with all that may happen in between.

export default async function halves({ load, device: gpu }, { batches, isTwin }) {
  const device = isTwin ? 'wasm' : gpu;
  const typed = batch =>
    Object.fromEntries(
      Object.entries(batch).map(([name, list]) => [name, Float32Array.from(list)]),
    );
  const whole = await load({ device });
  const model = await load({ device });
  const bits = async one => JSON.stringify([await one.params(), await one.state()], plain);
  const refused = {};
  const attempt = async (name, job) => {
    refused[name] = await job().then(
      () => 'nothing',
      error => error.code,
    );
  };
  await attempt('apply', () => model.apply(new Float32Array(3)));
  await attempt('undo', () => model.undo());
  await attempt('entry', () => model.gradients({}, 'nothing'));
  const same = [];
  for (const batch of batches.map(typed)) {
    const expected = await whole.train(batch);
    await model.gradients(batch);
    const before = await bits(model);
    const gradients = await model.gradients(batch);
    await model.apply(gradients.map(number => 3 * number));
    await model.undo();
    const isUndone = (await bits(model)) === before;
    const again = await model.gradients(batch);
    await attempt('shape', () => model.apply(again.slice(1)));
    const found = await model.apply(again);
    same.push([
      isUndone,
      JSON.stringify(found, plain) === JSON.stringify(expected, plain),
      (await bits(model)) === (await bits(whole)),
    ]);
  }
  const before = await bits(model);
  const last = await model.gradients(typed(batches[0]));
  await attempt('nan', () => model.apply(last.fill(Number.NaN)));
  const isRestored = (await bits(model)) === before;
  const first = Array.from(await (await load({ device })).gradients(typed(batches[0])));
  return { same, refused, isRestored, steps: model.progress.steps, first };
}

function plain(_, value) {
  return ArrayBuffer.isView(value) ? Array.from(/** @type {any} */ (value)) : value;
}
