// What every library gets: the same initial values, the same batch; and the page's side of the
// measurement.

/** Values below 1 that look random, the same everywhere. */
function* numbers() {
  let state = 12345;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

const take = (type, count, f) => {
  const source = numbers();
  const values = new type(count);
  for (let i = 0; i < count; i++) values[i] = f(source.next().value);
  return values;
};

const BATCHES = {
  a: () => {
    const x = take(Float32Array, 256, u => 6 * u - 3);
    return { x: [x, [256, 1]], y: [x.map(Math.sin), [256, 1]] };
  },
  b: () => ({
    x: [take(Float32Array, 128 * 784, u => u), [128, 784]],
    y: [take(Int32Array, 128, u => Math.floor(10 * u)), [128]],
  }),
  c: () => {
    const ids = take(Int32Array, 8 * 64, u => Math.floor(65 * u));
    return { ids: [ids, [8, 64]], labels: [ids.map(id => (id * 7 + 3) % 65), [8, 64]] };
  },
};

/** The batch of a model: name → [typed array, shape]. */
export const batchOf = model => BATCHES[model]();

/** The initial values of a model, read from its bundle: name → [Float32Array, shape]. */
export async function weightsOf(model) {
  const bytes = await (await fetch(`/bundles/${model}/weights.safetensors`)).arrayBuffer();
  const start = 8 + Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, start - 8)));
  delete header.__metadata__;
  return Object.fromEntries(
    Object.entries(header).map(
      ([
        name,
        {
          shape,
          data_offsets: [from, to],
        },
      ]) => [name, [new Float32Array(bytes.slice(start + from, start + to)), shape]],
    ),
  );
}

/**
 * Makes the first step and leaves the rest to the driver: `block` makes steps until the time is up.
 * @param {(model: string) => Promise<() => Promise<number>>} start
 */
export async function begin(start) {
  const model = new URL(location).searchParams.get('model');
  try {
    const step = await start(model);
    const losses = [await step()];
    const firstStep = performance.now();
    globalThis.block = async (seconds, most) => {
      const ms = [];
      const end = performance.now() + 1000 * seconds;
      do {
        const from = performance.now();
        const before = gpuCounts.dispatches;
        losses.push(await step());
        ms.push(performance.now() - from);
        gpuCounts.step = gpuCounts.dispatches - before;
      } while (ms.length < most && performance.now() < end);
      return { ms, counts: gpuCounts, losses };
    };
    globalThis.begun = { firstStep };
  } catch (error) {
    globalThis.begun = { failed: `${error.stack ?? error}` };
  }
}
