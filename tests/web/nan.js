// NaNs written into parameters and moments without the runtime's knowledge, like a memory error:
// what is reported, and whether everything else kept its last good value.

const BAD = [0x7fc00000, 0x7f800000, 0xff800000];

/**
 * `most`: how many tensors to corrupt, spread over all; `gradient`: only train once, and return the
 * error.
 */
export default async function nan(
  { load, device: gpu = navigator.gpu },
  { most = 1e9, gradient = false },
) {
  const buffers = [];
  const model = await load({ device: recording(gpu, buffers) });
  const { tensors, entries } = model.plan;
  if (gradient) {
    const before = await everything(model);
    const said = await trained(model, 0);
    return {
      said,
      same: same(await everything(model), before),
      steps: model.progress.steps.train ?? 0,
    };
  }
  const floats = entries.train.writes.filter(id => tensors[id].dtype[0] === 'f');
  const stride = Math.max(1, Math.floor(floats.length / most));
  const seen = [];
  for (let n = 0; n < floats.length; n += stride) {
    const id = floats[n];
    const { buffer, offset, shape } = tensors[id];
    const size = shape.reduce((a, b) => a * b, 1);
    await model.reset();
    for (let step = 0; step < 2; step++) await model.train(batchOf(model.plan, step));
    const before = await everything(model);
    model.device.queue.writeBuffer(
      buffers[buffer],
      offset + 4 * ((7 * n) % size),
      Uint32Array.of(BAD[n % 3]),
    );
    const said = await trained(model, 2);
    const after = await everything(model);
    seen.push({
      id,
      named:
        said.startsWith('nan: `train` step 3: ') &&
        said.includes(`\`${id}\` was not finite before the step`),
      said,
      same: same(after, before, id),
      bad: after[id].filter(x => !Number.isFinite(x)).length,
      steps: model.progress.steps.train,
    });
  }
  model.dispose();
  return seen;
}

const everything = async model => ({ ...(await model.params()), ...(await model.state()) });
const same = (a, b, but) => Object.keys(a).every(id => id === but || `${a[id]}` === `${b[id]}`);
const trained = (model, step) =>
  model.train(batchOf(model.plan, step)).then(
    () => 'done',
    error => error.message,
  );

/** Numbers of -1 to 1, integers of their range, other at each step. */
function batchOf({ entries, tensors }, step) {
  const { inputs, ranges = {} } = entries.train;
  return Object.fromEntries(
    Object.entries(inputs).map(([port, id]) => {
      const { shape, dtype } = tensors[id];
      const allowed = ranges[port] ?? [0, 1];
      const [low, high] = Array.isArray(allowed) ? allowed : [allowed.low, allowed.high];
      const unit = i => Math.abs(Math.sin(12.9898 * (i + 1) + 78.233 * step) * 43758.5453) % 1;
      return [
        port,
        Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) =>
          dtype[0] === 'f' ? 2 * unit(i) - 1 : low + Math.floor((high - low + 1) * unit(i)),
        ),
      ];
    }),
  );
}

/** The GPU, whose device records the buffers it makes. */
function recording(gpu, buffers) {
  return {
    async requestAdapter(options) {
      const adapter = await gpu.requestAdapter(options);
      const { features, limits, info } = adapter;
      const requestDevice = async description => {
        const device = await adapter.requestDevice(description);
        const createBuffer = device.createBuffer.bind(device);
        device.createBuffer = what => {
          buffers.push(createBuffer(what));
          return buffers.at(-1);
        };
        return device;
      };
      return { features, limits, info, requestDevice };
    },
  };
}
