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
  Promise.resolve(promise).then(
    () => null,
    error => error.message,
  );

/** Which rows are trained with, and which are held out, of some numbers of rows. */
async function splitsOf(model) {
  const found = [];
  for (const [rows, share, seed] of [
    [6, 0.2, 0],
    [7, 0.5, 3],
    [1000, 0.01, 9],
    [5000, 0.999, 4],
  ]) {
    const lines = Array.from({ length: rows }, (_, i) => `${i},0,0,0`);
    const table = ['x0,x1,x2,y', ...lines].join('\n');
    const data = await model.readData(table, { name: 'rows.csv' });
    const parts = await data.split(share, seed);
    const firsts = parts.map(({ arrays }) => Array.from(arrays.x).filter((_, i) => i % 3 === 0));
    found.push({ rows, share, seed, parts: firsts });
  }
  return found;
}

async function wrongOf(model) {
  const table = 'x0,x1,x2,y\n1,2,3,4';
  const asked = [
    [table, { colour: 1 }],
    [table, { missing: 'keep' }],
    [{}, { name: 'a.csv' }],
    [[], {}],
    [table, { entry: 'fly' }],
    [[new File([table], 'a.csv'), new File([table], 'b.csv')], {}],
  ];
  const found = [];
  for (const [source, options] of asked)
    found.push(await refusalOf(model.readData(source, options)));
  return found;
}

/** Whether a training resumes with data that was prepared in another way, and in the same. */
async function resumedWith(model) {
  const arrays = { x: new Float32Array(36), y: new Float32Array(12) };
  const options = { steps: 3, resume: true };
  const { inputs, ...others } = PREPARATION;
  const other = { ...PREPARATION, missing: 'mean' };
  const found = [];
  // The same, with its keys in another order.
  for (const preparation of [other, { inputs, ...others }])
    found.push(await refusalOf(model.fit({ [DATA]: true, arrays, preparation }, options)));
  return found;
}

/** What a model has after it restored a checkpoint with a preparation, without, and a broken one. */
async function restoredFrom(model, bytes) {
  const without = await model.save();
  await model.restore(bytes);
  const restored = model.preparation;
  const resumed = await resumedWith(model);
  await model.restore(without);
  const emptied = model.preparation;
  const broken = bytes.slice();
  const at = Buffer.from(bytes).indexOf('[200]');
  broken.set(new TextEncoder().encode('null '), at);
  return { restored, emptied, resumed, refused: await refusalOf(model.restore(broken)) };
}

export default async function prepared({ load, device }) {
  const model = await load({ device });
  model.preparation = PREPARATION;
  const file = Buffer.from(await model.save()).toString('base64');
  model.preparation = null;
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
  const readPrepared = (await model.callPrepared('predict', { x: scaled })).y;
  // Training entries take what was prepared: the same step as from the arrays.
  const losses = [(await model.train({ x: x.slice(0, 18), y: y.slice(0, 6) })).loss[0]];
  model.preparation = null;
  await model.reset();
  losses.push((await model.train({ x: x.slice(0, 18), y: y.slice(0, 6) })).loss[0]);
  const other = await load({ device, weights: bytes });
  const loaded = other.preparation;
  const names = { version: 1, target: 'y', inputs: { y: { kind: 'classes', classes: ['a'] } } };
  other.preparation = names;
  return {
    ...(await restoredFrom(model, bytes)),
    plain: Array.from(plain),
    read: Array.from(read),
    readPrepared: Array.from(readPrepared),
    shape: read.shape,
    file,
    splits: await splitsOf(model),
    wrong: await wrongOf(model),
    untouched,
    isSet,
    losses,
    loaded,
    classes: other.classes,
    preparation: PREPARATION,
  };
}
