// Steps that fail in the model of tests/twin/test_checked_steps.py: what is said, and what is left.

const said = promise =>
  promise.then(
    () => 'fine',
    error => error.message,
  );
const wave = (size, step) =>
  Float32Array.from({ length: size }, (_, i) => Math.sin(i * 7.3 + step));
const batchOf = (step, change = {}) => ({
  x: wave(1600, step),
  ids: Float32Array.from({ length: 8 }, (_, i) => (i + step) % 5),
  y: wave(8, 3 * step),
  steep: Float32Array.of(0),
  ...change,
});

export default async function checked({ load }, { threads }) {
  const model = await load({ device: 'wasm', threads });
  const bits = async () => JSON.stringify([await model.params(), await model.state()]);
  const train = async (steps, change, at) => {
    const data = step => batchOf(step, step === at ? change : {});
    for await (const _ of model.fit(data, { steps, every: 100 }));
  };
  const seen = { said: [], kept: [], steps: [] };
  const changes = [{ y: wave(8, 0).map(y => y * 1e30) }, { steep: Float32Array.of(1e21) }];
  for (const change of [...changes, { ids: new Float32Array(8).fill(7) }]) {
    const before = await bits();
    seen.said.push(await said(model.train(batchOf(1, change))));
    seen.kept.push((await bits()) === before);
    seen.said.push(await said(train(12, change, 7)));
    seen.steps.push(model.progress.steps.train);
  }
  await model.gradients(batchOf(2));
  const before = await bits();
  const gradients = await model.gradients(batchOf(3));
  seen.said.push(await said(model.apply(gradients.map(each => each * 1e30))));
  seen.kept.push((await bits()) === before);
  await model.train(batchOf(4));
  const end = await bits();
  model.dispose();
  return { ...seen, end };
}
