// The bundle of tests/support/line_twin.py on its twin: what it trains to, bit by bit, for several numbers
// of threads, and what becomes of NaN, traps, ended workers, aborts and missing memory.

export default async function wasm({ load, device: gpu }, { threads, gpu: hasGpu }) {
  const runs = [];
  for (const count of threads) runs.push(await run(load, count));
  return {
    runs,
    chosen: await choices(load, gpu, hasGpu),
    faults: await faults(load, Math.max(...threads)),
    refused: await refusals(load),
  };
}

/** What makes the hand-written twin trap. */
const TRAP = 666;
const batchOf = step => ({
  x: Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + step)),
  y: Float32Array.from({ length: 8 }, (_, i) => Math.cos(3 * i + step)),
});
const trapAt = bad => step => {
  const batch = batchOf(step);
  if (step === bad) batch.x[0] = TRAP;
  return batch;
};
const bitsOf = async model => {
  const { params, state } = { params: await model.params(), state: await model.state() };
  const words = Object.values({ ...params, ...state }).flatMap(list => [
    ...new Uint32Array(list.buffer),
  ]);
  return words.map(word => word.toString(16)).join(' ');
};
const messageOf = async job => {
  try {
    await job();
    return 'done';
  } catch (error) {
    return error.code ? error.message : `${error.stack ?? error}`;
  }
};
const train = async (model, data, options) => {
  const losses = [];
  for await (const { loss } of model.fit(data, options)) losses.push(loss);
  return losses;
};

/** Everything but faults, on a number of threads. */
async function run(load, threads) {
  const stages = [];
  const model = await load({
    device: 'wasm',
    threads,
    verify: true,
    onProgress: ({ stage }) => stages.push(stage),
  });
  const losses = await train(model, batchOf, { steps: 60, every: 20 });
  const bits = await bitsOf(model);
  const { p } = await model.predict({ x: batchOf(3).x });
  const { rows } = await model.pick({ ids: [3, -1, 0] });
  const nan = await messageOf(() =>
    model.train({ ...batchOf(0), y: new Float32Array(8).fill(3e38) }),
  );
  const isUndone = (await bitsOf(model)) === bits;
  const file = await model.save();
  await model.forget();
  await model.reset(5);
  await model.restore(file);
  const isRestored = (await bitsOf(model)) === bits;
  const { method, rows: times } = await model.profile('train', 2);
  const isKept = (await bitsOf(model)) === bits;
  const { adapter, progress } = model;
  model.dispose();
  const closed = await messageOf(() => model.predict({ x: batchOf(3).x }));
  return {
    adapter,
    stages,
    losses,
    bits,
    p: [...p],
    rows: [...rows],
    nan,
    isUndone,
    isRestored,
    isKept,
    method,
    times: times.map(({ kernel, ms }) => [kernel, ms > 0]),
    steps: progress.steps.train,
    closed,
  };
}

/** What `load` opens, and how a checkpoint moves between GPU and twin. */
async function choices(load, gpu, hasGpu) {
  const kindOf = async options => {
    const model = await load(options);
    const { kind } = model.adapter;
    model.dispose();
    return kind;
  };
  const found = { unasked: await kindOf({}), wasm: await kindOf({ device: 'wasm' }) };
  if (!hasGpu) return found;
  found.gpu = await kindOf({ device: gpu });
  found.profile = await kindOf({ device: gpu, profile: 'gpu' });
  const [there, here] = [await load({ device: gpu }), await load({ device: 'wasm' })];
  const [first] = await train(there, batchOf, { steps: 10, every: 10 });
  await here.restore(await there.save());
  await there.restore(await here.save());
  const onTwin = await train(here, batchOf, { steps: 20, every: 10, resume: true });
  const onGpu = await train(there, batchOf, { steps: 20, every: 10, resume: true });
  found.moved = [first, onTwin.at(-1), onGpu.at(-1)];
  here.dispose();
  there.dispose();
  return found;
}

async function faults(load, threads) {
  const options = { device: 'wasm', threads };
  const whole = await load(options);
  await train(whole, batchOf, { steps: 20, every: 4 });
  const wanted = await bitsOf(whole);
  whole.dispose();

  const model = await load(options);
  let reason;
  model.lost.then(loss => {
    reason = loss.reason;
  });
  const trap = await messageOf(() => train(model, trapAt(9), { steps: 20, every: 4 }));
  const after = await messageOf(() => model.predict({ x: batchOf(0).x }));
  const counted = model.progress.steps.train;
  await model.recover();
  const { data } = { data: model.progress.steps.train ?? 0 };
  await train(model, batchOf, { steps: 20 - data, every: 4 });
  const isSame = (await bitsOf(model)) === wanted;
  model.dispose();
  return {
    trap,
    after,
    counted,
    reason,
    isSame,
    trapTwice: await recovering(load, options, trapAt(9), wanted),
    trapOnce: await recovering(load, options, onceAt(9), wanted),
    killed: await killed(load, options, wanted),
    aborted: await aborted(load, options),
    noMemory: await withoutMemory(load, options),
  };
}

/** Traps the first time that it is asked for a step, as a failing machine does. */
function onceAt(bad) {
  let count = 0;
  return step => (step === bad && ++count === 1 ? trapAt(bad)(step) : batchOf(step));
}

async function recovering(load, options, data, wanted) {
  const model = await load(options);
  const message = await messageOf(() => train(model, data, { steps: 20, every: 4, recover: true }));
  const isSame = message === 'done' && (await bitsOf(model)) === wanted;
  model.dispose();
  return { message, isSame };
}

/** A worker that fails on its own in the middle of a training. */
async function killed(load, options, wanted) {
  const { workers, restore } = watchWorkers();
  const model = await load(options);
  let kills = 0;
  const data = async step => {
    if (step === 9 && ++kills === 1) {
      workers[0].end();
      await new Promise(resolve => setTimeout(resolve, 100));
    }
    return batchOf(step);
  };
  const message = await messageOf(() => train(model, data, { steps: 20, every: 4, recover: true }));
  const isSame = message === 'done' && (await bitsOf(model)) === wanted;
  model.dispose();
  restore();
  return { message, isSame, kills, workers: workers.length };
}

/** The workers that are started from now on, each with a way to end it from outside. */
function watchWorkers() {
  const threads = globalThis.process?.getBuiltinModule?.('node:worker_threads');
  const [owner, Own] = globalThis.Worker
    ? [globalThis, globalThis.Worker]
    : [threads, threads.Worker];
  const workers = [];
  owner.Worker = class extends Own {
    constructor(...given) {
      super(...given);
      workers.push({
        // Where nothing tells of a worker's end, as in Deno, an error does.
        end: () =>
          globalThis.navigator?.locks || !globalThis.Worker
            ? this.terminate()
            : this.dispatchEvent(new ErrorEvent('error', { message: 'ended', cancelable: true })),
      });
    }
  };
  return {
    workers,
    restore: () => {
      owner.Worker = Own;
    },
  };
}

async function aborted(load, options) {
  const model = await load(options);
  const stopper = new AbortController();
  const reason = await messageOf(async () => {
    for await (const { step } of model.fit(batchOf, {
      steps: 1e6,
      every: 4,
      signal: stopper.signal,
    }))
      if (step >= 8) stopper.abort(Object.assign(new Error('enough'), { code: 'enough' }));
  });
  const isLoading = await messageOf(() => load({ ...options, signal: AbortSignal.abort() }));
  const found = { reason, steps: model.progress.steps.train, isLoading: isLoading.split('\n')[0] };
  model.dispose();
  return found;
}

/** Neither for the linear memory nor for the copies that undo a step. */
async function withoutMemory(load, options) {
  const { Memory } = WebAssembly;
  WebAssembly.Memory = function NoMemory() {
    throw new RangeError('could not allocate memory');
  };
  const shared = options.threads > 1 ? await messageOf(() => load(options)) : '';
  WebAssembly.Memory = Memory;
  return shared;
}

async function refusals(load) {
  const options = {
    threads: { device: 'wasm', threads: 0 },
    half: { device: 'wasm', threads: 1.5 },
    device: { device: 'gpu' },
    small: { device: 'wasm', maxBytes: 1 },
  };
  const found = {};
  for (const [name, option] of Object.entries(options))
    found[name] = await messageOf(() => load(option));
  return found;
}
