// What a model does with a preparation: scales calls and predictions, keeps it in checkpoints.

const PREPARATION = {
  version: 1,
  target: 'y',
  missing: 'drop',
  inputs: {
    y: { kind: 'columns', columns: ['price'], mean: [200], deviation: [0.1] },
    x: {
      kind: 'columns',
      columns: ['größe', 'b', 'c'],
      mean: [5, 1e-7, 1e21],
      deviation: [2, 0, 1e21],
    },
  },
};
const DATA = Symbol.for('wgcc.data');

const refusalOf = promise =>
  promise.then(
    () => null,
    error => error.message,
  );

export default async function prepared({ load, device }) {
  const model = await load({ device });
  const raw = Float32Array.of(7, 1, 1e21, 3, 0, 0);
  const scaled = Float32Array.of(1, 1 - 1e-7, 0, -1, -1e-7, -1);
  const plain = (await model.predict({ x: scaled })).y;
  const x = Float32Array.from({ length: 36 }, (_, i) => Math.sin(i));
  const y = Float32Array.from({ length: 12 }, (_, i) => x[3 * i]);
  const untouched = [model.preparation, model.classes];
  const data = { [DATA]: true, arrays: { x, y }, preparation: PREPARATION };
  for await (const _ of model.fit(data, { steps: 2 }));
  const isSet = model.preparation === PREPARATION;
  const bytes = await model.save();
  await model.reset();
  const read = (await model.predict({ x: raw })).y;
  // Training entries take what was prepared: the same step as from the arrays.
  const losses = [(await model.train({ x: x.slice(0, 18), y: y.slice(0, 6) })).loss[0]];
  model.preparation = null;
  await model.reset();
  losses.push((await model.train({ x: x.slice(0, 18), y: y.slice(0, 6) })).loss[0]);
  const without = await model.save();
  await model.restore(bytes);
  const restored = model.preparation;
  await model.restore(without);
  const emptied = model.preparation;
  const other = await load({ device, weights: bytes });
  const loaded = other.preparation;
  const names = { version: 1, target: 'y', inputs: { y: { kind: 'classes', classes: ['a'] } } };
  other.preparation = names;
  const broken = bytes.slice();
  const at = Buffer.from(bytes).indexOf('[200]');
  broken.set(new TextEncoder().encode('null '), at);
  return {
    plain: Array.from(plain),
    read: Array.from(read),
    shape: read.shape,
    untouched,
    isSet,
    losses,
    restored,
    emptied,
    loaded,
    classes: other.classes,
    refused: await refusalOf(model.restore(broken)),
    header: new TextDecoder().decode(bytes.subarray(8, 600)).split('"wgcc"')[0],
    preparation: PREPARATION,
  };
}
