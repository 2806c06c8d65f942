// Predictions of a model whose products read f16 copies of weights, after all that writes weights.

export default async function copies({ load, device }, { batch }) {
  const model = await load({ device });
  const predictions = async () => [...(await model.call('predict', { x: batch.x })).y].flat();
  const found = { start: await predictions() };
  for (let step = 0; step < 3; step++) await model.train(batch);
  found.trained = await predictions();
  const checkpoint = await model.save();
  await model.call('shrink', { by: 0.5 });
  found.shrunk = await predictions();
  const y = batch.y.map((value, i) => (i ? value : 1e30));
  found.code = await model.train({ ...batch, y }).then(
    () => 'done',
    error => error.code,
  );
  found.undone = await predictions();
  await model.restore(checkpoint);
  found.restored = await predictions();
  await model.reset();
  found.reset = await predictions();
  model.dispose();
  return found;
}
