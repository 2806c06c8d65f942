// What a model captures in calls, in training, in parts and in a worker.

const plain = value =>
  ArrayBuffer.isView(value) ? { shape: value.shape, list: [...value] } : value;
const read = captured =>
  Object.fromEntries(
    Object.entries(captured).map(([name, value]) => [
      name,
      ArrayBuffer.isView(value) ? plain(value) : { ...value, histogram: [...value.histogram] },
    ]),
  );

export default async function captured({ load, device: gpu }, { ids, many, isTwin, worker }) {
  const model = await load({ device: isTwin ? 'wasm' : gpu, ...(worker ? { worker: true } : {}) });
  const said = job =>
    job.then(
      () => 'nothing',
      error => `${error.code}: ${error.message}`,
    );
  const before = await said(model.captured());
  await model.train({ ids: Int32Array.from(ids) });
  const train = read(await model.captured());
  await model.predict({ ids: Int32Array.from(many) });
  const parts = read(await model.captured());
  const refused = [
    await said(model.captured({ names: ['blocks.0.norm'] })),
    await said(model.captured({ names: ['blocks.9'] })),
    await said(model.captured({ entry: 'nothing' })),
  ];
  const earlier = read(await model.captured({ entry: 'train', names: ['blocks.0'] }));
  await model.fit({ ids: Int32Array.from(many) }, { steps: 2, every: 1 });
  const fitted = Object.keys(await model.captured());
  const halves = await model.gradients({ ids: Int32Array.from(ids) });
  await model.apply(halves);
  const applied = Object.keys(await model.captured({ entry: 'train' }));
  model.dispose();
  return { before, train, parts, refused, earlier, fitted, applied };
}
