// A model whose names are those of members that every object has: what Python does with it, done
// here.

export default async function job({ load, device }) {
  const entry = 'propertyIsEnumerable';
  const data = {
    toLocaleString: Float32Array.of(1, 2, 3, 4),
    __defineGetter__: Int32Array.of(5, 300),
  };
  const model = await load({ device, verify: true });
  const losses = [];
  const fitted = [];
  for (let i = 0; i < 3; i++) losses.push((await model.call(entry, data)).__lookupGetter__[0]);
  const steps = [model.progress.steps[entry]];
  await model.reset();
  for await (const { loss } of model.fit(() => data, { entry, steps: 3, every: 1 }))
    fitted.push(loss);
  steps.push(model.progress.steps[entry]);
  await model.reset();
  for (let i = 0; i < 2; i++) await model.call(entry, data);
  const bytes = await model.save();
  await model.reset(3);
  await model.loadParams(await model.params());
  await model.restore(bytes);
  steps.push(model.progress.steps[entry]);
  const restored = (await model.call(entry, data)).__lookupGetter__[0];
  const missing = await model
    .call(entry, { __defineGetter__: data.__defineGetter__ })
    .catch(({ code }) => code);
  await model.reset(9);
  const drawn = Array.from((await model.params()).valueOf);
  model.dispose();
  return { losses, fitted, restored, steps, missing, drawn };
}
