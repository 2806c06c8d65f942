// A GPU that fails: the n-th call of a kind, for every n of loading and three steps; or the whole
// device, at every call of a run of 20 steps. Failures must be errors with a code, and the model
// must have the values of the step that it counts.

export default async function faults({ load, device: gpu = navigator.gpu }, { stride = 1 }) {
  return {
    calls: await failEveryCall(load, gpu),
    losses: await loseAtEveryCall(load, gpu, stride),
  };
}

/** A batch for the model of tests/support/line_bundle.py, another at each step. */
const batchOf = step => ({
  x: Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + step)),
  y: Float32Array.from({ length: 8 }, (_, i) => Math.cos(3 * i + step)),
});
const everything = async model => JSON.stringify([await model.params(), await model.state()]);
const codeOf = async job => {
  try {
    await job();
    return 'done';
  } catch (error) {
    return typeof error.code === 'string' ? error.code : `${error.stack}`;
  }
};
const train = (model, options) =>
  codeOf(async () => {
    for await (const _ of model.fit(batchOf, options));
  });

/**
 * The GPU, with `before(name, device, argument)` called before each call; if it returns something,
 * that is used instead.
 */
function watched(gpu, before) {
  const devices = [];
  return {
    devices,
    async requestAdapter(options) {
      const adapter = await gpu.requestAdapter(options);
      const { features, limits, info } = adapter;
      return {
        features,
        limits,
        info,
        async requestDevice(description) {
          const device = await adapter.requestDevice(description);
          devices.push(device);
          for (const name of [
            'createBuffer',
            'createComputePipelineAsync',
            'pushErrorScope',
            'popErrorScope',
          ])
            watch(device, name, device);
          watch(device.queue, 'submit', device);
          return device;
        },
      };
    },
  };

  function watch(object, name, device) {
    const real = object[name].bind(object);
    object[name] = (...given) => {
      const instead = before(name, device, given[0]);
      // A buffer without usage is invalid, as a buffer is when there is not enough memory.
      const result =
        instead === 'invalid' ? real({ size: 4, usage: 0 }) : (instead ?? real(...given));
      if (name === 'createBuffer') watch(result, 'mapAsync', device);
      return result;
    };
  }
}

// ---- single calls

const COMPILING = 'compiling while loading';
const CALLS = { memory: 'createBuffer', [COMPILING]: 'createComputePipelineAsync' };

async function failEveryCall(load, gpu) {
  const steps = 3;
  const model = await load({ device: gpu });
  const states = [await everything(model)];
  const seen = {};
  for (let step = 0; step < steps; step++) {
    await model.train(batchOf(step));
    states.push(await everything(model));
  }
  model.dispose();
  for (const kind of [
    'createBuffer',
    'memory',
    'createComputePipelineAsync',
    COMPILING,
    'mapAsync',
    'submit',
  ]) {
    seen[kind] = {};
    for (let n = 1; ; n++) {
      const fault = failing(kind, n);
      const device = watched(gpu, fault.before);
      const entries = kind === COMPILING ? ['train', 'predict'] : undefined;
      const found = await attempt(load, { device, entries }, fault, steps, states);
      if (!fault.happened) break;
      seen[kind][found] = (seen[kind][found] ?? 0) + 1;
    }
  }
  return seen;
}

/** Makes the n-th call of a kind fail; `memory`: the n-th buffer, for which there is no memory. */
function failing(kind, n) {
  const call = CALLS[kind] ?? kind;
  const scopes = [];
  let isFull = false;
  let left = n;
  const fault = {
    call,
    happened: false,
    isOver: false,
    before(name, _, argument) {
      if (name === 'pushErrorScope') scopes.push(argument);
      if (name === 'popErrorScope' && scopes.pop() === 'out-of-memory' && isFull) {
        isFull = false;
        return Promise.resolve({ message: 'no memory' });
      }
      if (name !== call || fault.isOver) return;
      left--;
      if (left === 0) return fail();
    },
  };
  return fault;

  function fail() {
    fault.happened = true;
    isFull = kind === 'memory';
    if (isFull) return 'invalid';
    if (kind === 'createBuffer' || kind === 'submit') throw new Error('it failed');
    return Promise.reject(new Error('it failed'));
  }
}

async function attempt(load, options, fault, steps, states) {
  let model;
  const loaded = await codeOf(async () => (model = await load(options)));
  if (!model) return `load: ${loaded}`;
  const code = await train(model, { steps, every: 1 });
  const done = model.progress.steps.train ?? 0;
  fault.isOver = true;
  const values = await everything(model);
  // A kernel that was not compiled is compiled at the next call.
  const isUncompiled = code === 'gpu' && !done && fault.call === CALLS[COMPILING];
  const next = isUncompiled ? `, then ${await train(model, { steps: 1 })}` : '';
  model.dispose();
  const early = code === 'done' && done !== steps ? ' too early' : '';
  return `fit: ${code}${early}${values === states[done] ? '' : ', wrong values'}${next}`;
}

// ---- the device

async function loseAtEveryCall(load, gpu, stride) {
  const whole = await lose(load, gpu, Infinity, false);
  const seen = { points: whole.points, undisturbed: whole.code, wrong: [], slowest: 0, lost: 0 };
  for (let point = 1; point <= whole.points; point += stride) {
    const { code, ms, done } = await lose(load, gpu, point, false);
    const again = await lose(load, gpu, point, true);
    seen.slowest = Math.max(seen.slowest, ms);
    // How many steps one submit holds depends on the time they take: a run may end before this
    // call.
    if (code !== (ms ? 'device-lost' : 'done') || done > 20) seen.wrong.push({ point, code, done });
    if (ms) seen.lost++;
    if (again.code !== 'done' || again.done !== 20 || again.values !== whole.values)
      seen.wrong.push({
        point,
        again: again.code,
        done: again.done,
        same: again.values === whole.values,
      });
  }
  return seen;
}

/** Trains 20 steps, and destroys the device at a call of the training. */
async function lose(load, gpu, point, recover) {
  let points = 0;
  let isTraining = false;
  let destroyed = 0;
  const device = watched(gpu, (_, it) => {
    if (!isTraining || it !== device.devices[0] || ++points !== point) return;
    destroyed = performance.now();
    it.destroy();
  });
  const model = await load({ device });
  isTraining = true;
  const code = await train(model, { steps: 20, every: 4, recover });
  const ms = destroyed && performance.now() - destroyed;
  isTraining = false;
  const values = code === 'done' ? await everything(model) : '';
  const done = model.progress.steps.train ?? 0;
  model.dispose();
  return { code, ms, done, values, points };
}
