// What every library gets, in a page and in Node: the same initial values and the same batch; and
// its side of the measurement.

/** Pages have a clock of 0.1 ms. */
const COARSE = 2;
const TYPES = { F32: Float32Array, I32: Int32Array, U8: Uint8Array };

/**
 * `model`, `entry`, `backend`, `threads`, and where things are: `files` to fetch, `scripts` to
 * import. A page has them in its address, node.mjs passes them.
 */
const settings = globalThis.benchTask ?? {
  ...Object.fromEntries(new URL(location).searchParams),
  files: location.origin,
  scripts: location.origin,
};

/** All tensors of a safetensors file: name → [typed array, shape]. */
async function tensorsOf(path) {
  const bytes = await (await fetch(`${settings.files}/${path}`)).arrayBuffer();
  const start = 8 + Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, start - 8)));
  delete header.__metadata__;
  return Object.fromEntries(
    Object.entries(header).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [from, to],
        },
      ]) => [name, [new TYPES[dtype](bytes.slice(start + from, start + to)), shape]],
    ),
  );
}

/** The batch of a model. */
export const batchOf = model => tensorsOf(`batches/${model}.safetensors`);

/** The initial values of a model, read from its bundle. */
export const weightsOf = model => tensorsOf(`bundles/${model}/weights.safetensors`);

/**
 * Makes the first step and leaves the rest to the driver: `block` makes steps until the time is up.
 * @param {(task: any) => Promise<() => Promise<number>>} start
 */
export async function begin(start) {
  try {
    const step = await start(settings);
    const losses = [await step()];
    const firstStep = performance.now();
    globalThis.block = async ({ seconds, most }) => {
      const ms = [];
      let steps = 0;
      const end = performance.now() + 1000 * seconds;
      do {
        const one = await timed(step, losses);
        ms.push(one.ms);
        steps += one.steps;
      } while (ms.length < most && performance.now() < end);
      return { ms, steps, counts: globalThis.gpuCounts ?? {}, losses: losses.slice(0, 3) };
    };
    globalThis.begun = { firstStep };
  } catch (error) {
    globalThis.begun = { failed: `${error.stack ?? error}` };
  }
}

/** Milliseconds of a step: of several, where the clock of a page is too coarse for one. */
async function timed(step, losses) {
  const counts = globalThis.gpuCounts ?? {};
  const from = performance.now();
  let steps = 0;
  let ms = 0;
  do {
    const { dispatches } = counts;
    losses.push(await step());
    counts.step = counts.dispatches - dispatches;
    steps++;
    ms = performance.now() - from;
  } while (ms < COARSE);
  return { ms: ms / steps, steps };
}
