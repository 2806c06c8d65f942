// Indices and labels out of range (tests/support/range_model.py): the error, and whether the call was
// undone.

const said = promise =>
  promise.then(
    () => 'fine',
    error => `${error.message}`,
  );
const everything = async model => ({ ...(await model.params()), ...(await model.state()) });
const same = (a, b) => Object.keys(a).every(id => `${a[id]}` === `${b[id]}`);
const fill = (size, value) => new Float32Array(size).fill(value);

export default async function ranges({ load, device }) {
  const model = await load({ device });
  const seen = {};
  /** The error of a call, and whether everything is unchanged after it. */
  const refused = async (entry, inputs) => {
    const before = await everything(model);
    const text = await said(model.call(entry, inputs));
    return [text, same(await everything(model), before)];
  };

  seen.moved = {
    fine: await said(model.moved({ x: [-1, 0, 7, 8], y: [1, 10, 5, -99] })),
    id: await said(model.moved({ x: [0, 9, 1, 2], y: [1, 10, 5, -99] })),
    label: await said(model.moved({ x: [0, 0, 1, 2], y: [0, 10, 5, -99] })),
  };
  for (let i = 0; i < 8; i++) await model.append({ x: fill(3, i) });
  seen.tail = Array.from((await model.tail()).rows);
  seen.append = await refused('append', { x: fill(3, 99) });
  seen.read = await refused('read');
  seen.both = await refused('both', { x: fill(3, 99) });
  seen.outputs = Object.keys(await model.pair({ a: [0, 1, 2, 3], b: [6, 6, 6, 6] }));
  seen.pair = await refused('pair', { a: [0, 1, 2, 3], b: [7, 7, 7, 7] });
  seen.hot = await refused('hot', { a: [0, 9.5, 3, 10] });
  seen.two = await refused('two', { a: [0, 9, 1, 2], b: [8, 7, 1, 2] });

  // training: one step, then several in one submit
  const ids = [0, 1, 2, 3];
  await model.loadParams({ offset: [2] }, { strict: false });
  seen.step = await refused('train', { ids, y: [5, 6, 7, 8] });
  await model.loadParams({ offset: [0] }, { strict: false });
  seen.fit = await said(
    (async () => {
      const batch = step => ({ ids, y: [5, 6, 7, step === 17 ? 10 : 8] });
      for await (const _ of model.fit(batch, { steps: 40, every: 100 }));
    })(),
  );
  seen.steps = model.progress.steps.train;
  const after = await everything(model);
  await model.reset();
  for await (const _ of model.fit(() => ({ ids, y: [5, 6, 7, 8] }), { steps: 17 }));
  const params = await model.params();
  seen.asIfNeverMade = Object.keys(params).every(id => `${params[id]}` === `${after[id]}`);

  // numbers from 1 to N
  seen.fromOne = await said(model.train({ ids: [1, 2, 9, 10], y: ids }));
  seen.notFromOne = await said(model.train({ ids: [0, 2, 9, 10], y: ids }));
  model.dispose();
  return seen;
}
