// Arrays of callers: unusual forms must mean the same as plain ones, wrong ones give an error code.

const codeOf = async promise => {
  try {
    await promise;
    return 'fine';
  } catch (error) {
    return error.code ?? `${error.stack}`;
  }
};

export default async function arrays({ load, tensor, device }, { x: numbers }) {
  const model = await load({ device });
  const x = Float32Array.from(numbers);
  const expected = `${(await model.predict({ x })).p}`;
  const seen = { odd: {}, wrong: {}, ids: {} };
  for (const [name, value] of Object.entries(oddArrays(numbers, tensor))) {
    const code = await codeOf(model.predict({ x: value }));
    const isSame = code === 'fine' && `${(await model.predict({ x: value })).p}` === expected;
    seen.odd[name] = isSame ? 'same' : code;
  }
  for (const [name, value] of Object.entries(wrongArrays(numbers, tensor)))
    seen.wrong[name] = await codeOf(model.predict({ x: value }));
  seen.wrong.otherName = await codeOf(model.predict({ x, y: x }));
  seen.wrong.prototype = await codeOf(model.predict(JSON.parse('{"x": [1], "__proto__": [1]}')));
  for (const [name, value] of Object.entries(IDS))
    seen.ids[name] = await codeOf(model.pick({ ids: value }));
  model.dispose();
  return seen;
}

function oddArrays(numbers, tensor) {
  const x = Float32Array.from(numbers);
  const inside = new Float32Array(100);
  inside.set(x, 3);
  const shared = new Float32Array(new SharedArrayBuffer(4 * x.length));
  shared.set(x);
  return {
    doubles: Float64Array.from(x),
    list: numbers,
    shaped: tensor(x.slice(), [8, 4]),
    part: inside.subarray(3, 3 + x.length),
    shared,
    frozen: Object.freeze([...numbers]),
    subclass: new (class extends Float32Array {})(x),
  };
}

function wrongArrays(numbers, tensor) {
  const x = Float32Array.from(numbers);
  const damaged = (at, value) => x.map((number, i) => (i === at ? value : number));
  const detached = x.slice();
  structuredClone(detached, { transfer: [detached.buffer] });
  const hole = [...numbers];
  delete hole[5];
  return {
    short: x.slice(1),
    long: [...numbers, 1],
    empty: [],
    oneNumber: 1,
    turned: tensor(x.slice(), [4, 8]),
    nan: damaged(3, NaN),
    infinity: damaged(3, -Infinity),
    tooLarge: numbers.map(() => 1e39),
    text: 'abc',
    numberText: '1',
    nothing: null,
    missing: undefined,
    object: {},
    date: new Date(),
    view: new DataView(x.buffer),
    buffer: x.buffer,
    func: () => x,
    hole,
    objects: numbers.map(() => ({})),
    nested: [numbers],
    lengthOnly: { length: 32, 0: 1 },
    bigints: new BigInt64Array(32),
    detached,
  };
}

const IDS = {
  beyond: [0, 4, 0],
  below: [0, -2, 0],
  floats: Float32Array.of(0, 1, 2),
  fractions: [0, 1.5, 2],
  tooLarge: [0, 2 ** 40, 0],
  short: [0, 1],
  nan: [0, NaN, 1],
  ignored: [0, -1, 3],
  bigints: BigInt64Array.of(0n, -1n, 3n),
  unsigned: Uint32Array.of(0, 4294967295, 3),
};
