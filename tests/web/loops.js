// A bundle whose training has loops: what it says of a NaN in one round, how it is aborted, and what
// its profile has.

export default async function loops({ load, device }, { good, bad, device: name }) {
  const model = await load(name === 'wasm' ? { device: name } : { device: device ?? name });
  await model.train({ xs: Float32Array.from(good) });
  let said = '';
  try {
    await model.train({ xs: Float32Array.from(bad) });
  } catch (error) {
    said = error.message;
  }
  const { w } = await model.params();
  const controller = new AbortController();
  let stopped = '';
  try {
    const options = { every: 1, signal: controller.signal };
    for await (const { step } of model.fit(() => ({ xs: Float32Array.from(good) }), options))
      if (step > 4) controller.abort();
  } catch (error) {
    stopped = error.name;
  }
  const steps = model.progress.steps.train;
  const { w: later } = await model.params();
  const { rows } = await model.profile('train', 1);
  model.dispose();
  const perStep = (later[0] - w[0]) / (steps - 1);
  return {
    said,
    w: [...w],
    stopped,
    perStep,
    rows: rows.map(({ label, times }) => ({ label, times })),
  };
}
