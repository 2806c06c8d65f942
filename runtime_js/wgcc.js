// The runtime of wgcc bundles for browsers, Deno and Node: loads a bundle, trains and predicts on WebGPU. No dependency,
// no build step. The twin of wgcc_runtime in Python: same checks and error codes, same first values, same checkpoint
// files. It knows plan.json and nothing of the compiler. What a page that trains does not need lies in parts that are
// loaded when first used: wgcc/check.js (what is wrong), files.js (weights from elsewhere, checkpoints), draw.js (values
// from a seed), inspect.js (the self-test, where a NaN came from, times), tune.js.

/**
 * @typedef {{kind: string, args?: Record<string, number>, values?: number[], of?: string}} Init
 * @typedef {{dtype: string, shape: number[], buffer: number, offset: number, role: string, init?: Init}} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 * @typedef {{buffer: number, offset: number, size: number}} Binding
 * @typedef {[number, number, number]} Grid
 * @typedef {{kernel: number, bindings: Binding[], grid: Grid, at?: string, label?: string}} Dispatch
 * @typedef {{inputs: Record<string, string>, outputs: Record<string, string>, ranges?: Record<string, any>,
 *   dispatches: Dispatch[], writes: string[], training: boolean, guard?: {flag: string, dispatches: Dispatch[]}}} Entry
 * @typedef {{name: string, file: string, sha256: string, entry: string, workgroup: number[], access: string[],
 *   subgroup?: number}} Kernel
 * @typedef {{model: {name: string, sha256: string, vocab?: string}, requires: {features: string[], limits: Record<string, number>}, kernels: Kernel[],
 *   buffers: {name: string, bytes: number, role: string}[], tensors: Tensors, entries: Record<string, Entry>,
 *   profiles?: Record<string, Record<string, {dispatch: number, kernel: number, grid: Grid}[]>>,
 *   optimizer?: Record<string, any>, weights?: {sha256: string, seed?: number}, selftest?: any, memory: Record<string, number>}} Plan
 * @typedef {Uint32Array<ArrayBuffer>} Words  one word per element, as on the GPU, whatever the element type
 * @typedef {Record<string, Words>} Named
 * @typedef {(Float32Array | Int32Array | Uint32Array | Uint8Array) & {shape: number[]}} Values  what callers get
 * @typedef {{steps: Record<string, number>, position: number, seed: number}} Progress
 * @typedef {{plan: any, kernels: Record<string, string>, weights?: () => any, constants?: string,
 *   seal?: {bundle: string, weights?: string}}} Bundle
 * @typedef {{whole?: Named, own?: Named, weights?: Named, constants?: Named | ''}} First  values
 * @typedef {[GPUBuffer, GPUBuffer][]} Copies
 * @typedef {{device?: any, weights?: any, seed?: number, profile?: string, signal?: AbortSignal, maxBytes?: number,
 *   verify?: boolean, tune?: boolean | number, onProgress?: (progress: {stage: string, done: number, total: number}) => void}} Options
 * @typedef {[GPUComputePipeline, GPUBindGroup, Grid]} Command
 * @typedef {(encoder: GPUCommandEncoder, readback: GPUBuffer) => void} Recorder
 * @typedef {{model: any, start: () => Promise<Named>, readAll: (wanted: (tensor: Tensor, key: string) => any) => Promise<Named>,
 *   writeAll: (words: Named, progress?: Progress) => Promise<void>, submit: (size: number, record: Recorder) => Promise<Words>,
 *   read: (buffer: number, offset: number, size: number) => Promise<Words>,
 *   pass: (encoder: GPUCommandEncoder, list: Command[], times?: any) => void,
 *   run: (key: string, batches: Named[], names: string[]) => Promise<any>, back: (saved: Copies) => Promise<any>,
 *   dispatchesOf: (key: string) => Dispatch[], now: () => {buffers: GPUBuffer[], commands: Record<string, Command[][]>}}} Inside  of a model
 * @typedef {{step: number, loss: number, outputs: Record<string, number>, ms: number}} Report
 * @typedef {{steps?: number, every?: number, entry?: string, seed?: number, resume?: boolean, signal?: AbortSignal,
 *   snapshot?: number, recover?: boolean}} FitOptions
 */

const { assign, hasOwn, keys, values: valuesOf, entries: pairsOf, fromEntries } = Object,
  { isInteger, isFinite } = Number,
  { min, max, floor, abs } = Math;

/** A problem a caller can act on: `code` is one stable word, `field` the place in the plan or the argument. */
export class WgccError extends Error {
  /** @param {string} code @param {string} message @param {string} [field] */
  constructor(code, message, field = '') {
    super(`${code}: ${field && `\`${field}\` `}${message}`);
    assign(this, { name: 'WgccError', code, field });
  }
}
/** @type {(code: string, field: string, message: string) => never} */
export const fail = (code, field, message) => {
  throw new WgccError(code, message, field);
};

/** @template V, R @param {Record<string, V>} all @param {(value: V, key: string) => R} f @returns {Record<string, R>} */
const mapped = (all, f) => fromEntries(pairsOf(all).map(([key, value]) => [key, f(value, key)]));
/** @template V @param {Record<string, V>} all @param {(value: V, key: string) => any} f @returns {Record<string, V>} */
const chosen = (all, f) => fromEntries(pairsOf(all).filter(([key, value]) => f(value, key)));
/**
 * What an object itself holds: names of the model, such as `toString`, may be those of members that every object has.
 * @template V @param {Record<string, V> | undefined} all @param {string} key @returns {V | undefined}
 */
export const ownOf = (all, key) => (all && hasOwn(all, key) ? all[key] : undefined);
/** @param {number[]} shape */
export const product = shape => shape.reduce((a, b) => a * b, 1);
/** @param {Tensor} tensor */
export const bytesOf = tensor => 4 * product(tensor.shape);
/** @param {Tensor} tensor */
export const isFloat = tensor => tensor.dtype[0] == 'f';
/** @param {Tensor} tensor */
export const isLasting = tensor => /param|state/.test(tensor.role);

// ---- arrays: what callers pass, words on the GPU, and back

/** @type {Record<string, [number, number]>} */
const BOUNDS = { i32: [-(2 ** 31), 2 ** 31 - 1], u32: [0, 2 ** 32 - 1], u8: [0, 255], bool: [0, 1] };
/** @param {string} dtype */
const typeOf = dtype => (dtype[0] == 'f' ? Float32Array : dtype == 'i32' ? Int32Array : Uint32Array);

/** The nearest half-precision number. @param {any} x */
const toHalf = x => {
  // A number so much larger has no room for more than eleven bits of x; between two, the sum is the even one.
  const big = 1.5 * 2 ** (42 + max(-14, floor(Math.log2(abs(x))))),
    half = x + big - big;
  return abs(half) < 65520 ? half || 0 * x : x / 0;
};

/**
 * Words of a list of numbers; nothing where a value would be lost.
 * @param {ArrayLike<any>} list @param {string} dtype @param {any} [allowed] @returns {Words | undefined}
 */
export function convert(list, dtype, allowed) {
  const bounds = BOUNDS[dtype],
    type = /** @type {any} */ (typeOf(dtype)),
    found =
      list.constructor == type && dtype != 'f16'
        ? /** @type {any} */ (list).slice()
        : type.from(list, dtype == 'f16' ? toHalf : Number),
    { 0: least, 1: most, low = least, high = most, ignore } = allowed ?? bounds ?? {};
  for (let i = 0; i < found.length; i++) {
    const x = bounds ? Number(list[i]) : found[i];
    if (!(bounds ? isInteger(x) && ((x >= low && x <= high) || x == ignore) : isFinite(x))) return;
  }
  return new Uint32Array(found.buffer);
}
/** A list of numbers, or one number; nothing where it cannot be of the tensor's type. @param {any} value @param {Tensor} tensor */
export const listOf = (value, tensor) => {
  const list = /number|boolean/.test(typeof value) ? [value] : value;
  if (list?.map && (isFloat(tensor) || !/Float/.test(list.constructor.name))) return list;
};
/** A tensor's words; nothing where type, shape or range are wrong. @param {any} value @param {Tensor} tensor @param {any} [allowed] */
export const toWords = (value, tensor, allowed) => {
  const list = listOf(value, tensor),
    { shape, dtype } = tensor;
  if (list?.length == product(shape) && `${value.shape ?? shape}` == `${shape}`) return convert(list, dtype, allowed);
};
/** @param {Words} words of its own @param {Tensor} tensor @returns {Values} */
export const fromWords = (words, { dtype, shape }) =>
  assign(/8|b/.test(dtype) ? Uint8Array.from(words) : new (typeOf(dtype))(words.buffer), { shape });

// ---- random words

/**
 * Threefry-2x32 with 20 rounds: words that depend on two keys, step and position alone.
 * @param {number} seed @param {number} second @param {number} count @param {number} [step]
 */
export function randomWords(seed, second, count, step = 0) {
  const key = [seed, second, seed ^ second ^ 0x1bd11bda];
  return new Uint32Array(count).map((_, i) => {
    let a = (step + seed) | 0,
      b = (i + second) | 0;
    for (let group = 0; group < 5;) {
      for (const r of group % 2 ? [17, 29, 16, 24] : [13, 15, 26, 6])
        ((a = (a + b) | 0), (b = ((b << r) | (b >>> (32 - r))) ^ a));
      a = (a + key[++group % 3]) | 0;
      b = (b + key[(group + 1) % 3] + group) | 0;
    }
    return a;
  });
}

/** The order of rows in an epoch. @param {number} seed @param {number} count @param {number} epoch */
export function shuffled(seed, count, epoch) {
  // The second key is the CRC of `shuffle`, as the names of tensors are keys of their first values.
  const words = randomWords(seed, 0x33fe5971, count, epoch),
    // Word and place as one number sort fastest; the place is its low half, which comes first.
    pairs = new Uint32Array(2 * count).map((_, i) => (i % 2 ? words[i >> 1] : i / 2));
  new BigUint64Array(pairs.buffer).sort();
  return pairs.filter((_, i) => i % 2 == 0);
}

// ---- one model: everything below is about the bundle that `open` was given

/** A part of the runtime. @template T @param {Promise<T>} importing @returns {Promise<T>} */
const part = importing => importing.catch(error => fail('bundle', '', `a part is missing: ${error}`));
const loadFiles = () => part(import('./wgcc/files.js')),
  loadDraw = () => part(import('./wgcc/draw.js')),
  loadInspect = () => part(import('./wgcc/inspect.js'));

/** Whether bytes are the very ones that the compiler wrote. @param {BufferSource} bytes @param {string} [seal] */
const isSealed = async (bytes, seal) =>
  btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle?.digest('SHA-256', bytes)))) == seal;
/** The words in a safetensors file that is sealed; files.js reads any other. @param {ArrayBuffer} file @returns {Named} */
const sealedWords = file => {
  const start = 8 + new Uint32Array(file)[0];
  return mapped(JSON.parse(new TextDecoder().decode(file.slice(8, start))), ({ data_offsets: [from, to] }) =>
    new Uint32Array(file.slice(start + from, start + to)),
  );
};
/** Bytes of a text in base 64. @param {string} text */
export const decoded = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));

/**
 * From a bundle to a model on the GPU; everything is checked before the first GPU call.
 * @param {Bundle} bundle @param {Options} [options] @returns {Promise<any>}
 */
export async function open(bundle, options = {}) {
  const { kernels, constants, seal } = bundle,
    plan = /** @type {Plan} */ (bundle.plan),
    { signal, onProgress, maxBytes = 2 ** 33 } = options,
    isOurs = seal && (await isSealed(new TextEncoder().encode(JSON.stringify([1, plan, kernels, constants])), seal.bundle));
  /** Something is wrong: check.js says what. @type {(what: string, ...facts: any[]) => Promise<any>} */
  const wrong = async (what, ...facts) =>
    /** @type {any} */ (await part(import('./wgcc/check.js')))[`check${what}`](plan, ...facts);
  if (!isOurs) await wrong('Bundle', kernels);
  const { tensors, entries, memory, requires } = plan,
    /** @type {NonNullable<Plan['profiles']>} */ profiles = { gpu: {}, ...plan.profiles },
    lasting = chosen(tensors, isLasting);
  if (memory.peak > maxBytes) await wrong('Memory');

  /** First values as the compiler sealed them, unless one has to be given or drawn. */
  const sealedValues = async () => {
    try {
      const source = bundle.weights?.(),
        file = source.buffer ?? (await (await fetch(source, { signal })).arrayBuffer()),
        own = sealedWords(file);
      if (await isSealed(file, /** @type {any} */ (seal).weights))
        return {
          // What is not in the file is a copy, or zero.
          whole: mapped(
            lasting,
            ({ init, shape }, key) => ownOf(own, key) ?? ownOf(own, init?.of ?? '') ?? new Uint32Array(product(shape)),
          ),
          constants: constants && sealedWords(decoded(constants).buffer),
        };
    } catch {
      // files.js says what is wrong.
    }
  };
  /** @type {First} */
  const first =
    (isOurs && !options.weights && (await sealedValues())) || (await (await loadFiles()).firstFiles(bundle, options));
  onProgress?.({ stage: 'weights', done: 1, total: 1 });
  signal?.throwIfAborted();
  /**
   * First values. With a seed, all that is random is drawn from it; given weights stand in any case.
   * @param {number | null} [seed] @param {Named} [given]
   */
  const start = async (seed = options.seed, given = first.weights) => ({
    ...first.constants,
    ...((seed == null && first.whole) || (await loadDraw()).firstValues(lasting, first, seed, given, plan.weights?.seed)),
  });

  // -- the GPU: device, buffers, pipelines, one submit; made anew after a loss

  /** @type {GPUDevice} */
  let device;
  /** Whether the device was asked for here. */
  let isOwn = false;
  /** @type {any} */
  let lost;
  /** Ends what waits for the GPU now. @type {(error: any) => void} */
  let giveUp;
  /** @type {GPUBuffer[]} */
  let buffers = [];
  /** Buffers for one purpose, used again. @type {Record<string, GPUBuffer>} */
  let spares = {};
  /** What an entry runs, and the test for NaN after it. @type {Record<string, Command[][]>} */
  let commands;
  /** What an entry changes, and room to undo it. @type {Record<string, Copies>} */
  let copies = Object.create(null);

  /** `choice`: a GPU, adapter or device; default: the browser's. @param {any} choice */
  const build = async choice => {
    const before = lost;
    lost = undefined;
    spares = {};
    copies = Object.create(null);
    try {
      const gpu = choice ?? globalThis.navigator?.gpu,
        adapter = gpu?.requestAdapter ? await gpu.requestAdapter({ powerPreference: 'high-performance' }) : gpu,
        isFit =
          adapter &&
          requires.features.every(key => adapter.features.has(key)) &&
          keys(requires.limits).every(key => adapter.limits[key] >= requires.limits[key]);
      if (!isFit) await wrong('Adapter', gpu, adapter);
      /** @type {GPUDevice} */
      const made = adapter.requestDevice
          ? await wait(
              adapter.requestDevice({
                requiredFeatures: [...requires.features, 'timestamp-query', 'subgroups'].filter(key =>
                  adapter.features.has(key),
                ),
                requiredLimits: requires.limits,
              }),
            )
          : gpu,
        info = adapter.info ?? /** @type {any} */ (made).adapterInfo ?? {},
        name = info.description || `${info.vendor} ${info.architecture}`,
        isSoftware = info.isFallbackAdapter || /llvmpipe|swiftshader|basic render/i.test(name + info.device),
        // How many neighbouring threads can tell each other what they loaded.
        subgroup = made.features.has('subgroups') ? (info.subgroupMinSize ?? 4) : 0,
        fits = (/** @type {string} */ choice) =>
          hasOwn(profiles, choice) &&
          keys(entries).every(key =>
            dispatchesOf(key, choice).every(({ kernel }) => !(/** @type {any} */ (plan.kernels[kernel].subgroup) > subgroup)),
          ),
        suited = (isSoftware && ['lavapipe', 'swiftshader', 'cpu'].find(fits)) || 'gpu',
        tuned = `tuned_${name}`.replace(/\W+/g, '_').slice(0, 99);
      device = made;
      isOwn = made != gpu;
      if (options.tune)
        profiles[tuned] ??= await (await part(import('./wgcc/tune.js'))).tune(open, bundle, options, made, tuned, suited, subgroup);
      const profile = model.adapter?.profile ?? options.profile ?? (fits(tuned) ? tuned : suited);
      if (!fits(profile)) await wrong('Profile', profile, profiles);
      assign(model, { device, lost: made.lost, adapter: { name, profile } });
      made.lost.then(({ message, reason }) => {
        if (made != device) return;
        lost = new WgccError('device-lost', `${message || reason}: recover() goes on`);
        giveUp?.(lost);
      });
      await scoped(`${memory.peak} bytes`, () => {
        buffers = plan.buffers.map(({ bytes }) => storage(bytes));
      });
      await scoped('the kernels', compile);
    } catch (error) {
      close();
      lost = before ?? error;
      throw error;
    }
  };
  const close = () => {
    for (const buffer of [...buffers, ...valuesOf(spares), ...valuesOf(copies).flat(2)]) buffer.destroy();
    if (isOwn) device.destroy();
  };

  /** Waits for the GPU, but not for ever, and never takes a lost device for success. @param {Promise<any>} promise */
  const wait = async promise => {
    let timer = /** @type {any} */ (0);
    try {
      return await new Promise((resolve, reject) => {
        // No race with `device.lost`: a promise that lives on would keep every loser.
        giveUp = reject;
        // Longer, and it is a shader that never ends.
        timer = setTimeout(reject, 6e5, new WgccError('time-out', 'the GPU hangs'));
        if (lost) reject(lost);
        promise.then(resolve, reject);
      });
    } catch (error) {
      // A mapping may fail just before the loss is told.
      await new Promise(done => setTimeout(done, 50));
      throw closed ?? lost ?? (error instanceof WgccError ? error : new WgccError('gpu', `${error}`));
    } finally {
      clearTimeout(timer);
    }
  };
  /** Runs `make` inside error scopes; its failures become ours. @template T @param {string} what @param {() => T} make @returns {Promise<Awaited<T>>} */
  const scoped = async (what, make) => {
    device.pushErrorScope('out-of-memory');
    device.pushErrorScope('validation');
    // What throws at once is an error like what fails later.
    const making = (async () => make())(),
      [invalid, full, made] = await wait(Promise.all([device.popErrorScope(), device.popErrorScope(), making]));
    if (full) fail('memory', '', `the GPU lacks memory for ${what}`);
    if (invalid) fail('gpu', '', `the GPU refused ${what}: ${invalid.message}`);
    return made;
  };
  /** Usage in numbers, because Node lacks the names: STORAGE | COPY_SRC | COPY_DST. @param {number} size @param {number} [usage] */
  const storage = (size, usage = 0x8c) => device.createBuffer({ size, usage });
  /** A longer one replaces it. @param {string} use @param {number} size @param {number} [usage] */
  const spare = (use, size, usage) => {
    if (spares[use]?.size >= size) return spares[use];
    spares[use]?.destroy();
    return (spares[use] = storage(size, usage));
  };

  /** What an entry runs under a profile (`gpu` is the plan itself). @param {string} key @param {string} profile */
  const dispatchesOf = (key, profile = model.adapter.profile) => {
    const found = [...entries[key].dispatches];
    for (const { dispatch, ...other } of ownOf(profiles[profile], key) ?? [])
      found[dispatch] = { ...found[dispatch], ...other };
    return found;
  };
  /** Pipelines compile in parallel, without blocking. */
  const compile = async () => {
    /** @type {GPUComputePipeline[]} */
    const made = [],
      lists = mapped(entries, ({ guard }, key) => [dispatchesOf(key), guard?.dispatches ?? []]),
      used = new Set(valuesOf(lists).flat(2).map(({ kernel }) => kernel));
    let done = 0;
    await Promise.all(
      [...used].map(async kernel => {
        const { name: label, file, entry: entryPoint } = plan.kernels[kernel],
          module = device.createShaderModule({ code: kernels[file] });
        made[kernel] = await device
          // Kernels of the compiler use all their bindings, so that the layout holds them all.
          .createComputePipelineAsync({ label, layout: 'auto', compute: { module, entryPoint } })
          .catch(error => fail('gpu', label, `was refused: ${error.message}`));
        onProgress?.({ stage: 'kernels', done: ++done, total: used.size });
      }),
    );
    commands = mapped(lists, pair =>
      pair.map(list =>
        list.map(({ kernel, bindings, grid }) => {
          const layout = made[kernel].getBindGroupLayout(0),
            entries = bindings.map((range, binding) => ({
              binding,
              resource: { ...range, buffer: buffers[range.buffer] },
            }));
          return [made[kernel], device.createBindGroup({ layout, entries }), grid];
        }),
      ),
    );
  };

  /** One compute pass. @param {GPUCommandEncoder} encoder @param {Command[]} list @param {GPUComputePassDescriptor} [times] */
  const pass = (encoder, list, times) => {
    const compute = encoder.beginComputePass(times);
    for (const [pipeline, group, grid] of list) {
      compute.setPipeline(pipeline);
      compute.setBindGroup(0, group);
      compute.dispatchWorkgroups(...grid);
    }
    compute.end();
  };
  /**
   * Submits what `record` records, waits, and gives the first `size` bytes of the readback buffer. `undone` takes
   * back what the GPU did and nobody will count.
   * @param {number} size @param {Recorder} record @param {() => any} [undone] @returns {Promise<Words>}
   */
  const submit = async (size, record, undone) => {
    const readback = await scoped('results', () => {
      const encoder = device.createCommandEncoder(),
        to = spare('read', size, 9); // MAP_READ | COPY_DST
      encoder.clearBuffer(to, 0, 4); // what nothing writes to could be mapped before the work is done
      record(encoder, to);
      device.queue.submit([encoder.finish()]);
      return to;
    }).catch(error => {
      spares = {}; // one of them may be what failed
      throw error;
    });
    await wait(readback.mapAsync(1, 0, size)).catch(async error => {
      if (!lost) await undone?.();
      throw error;
    });
    const words = new Uint32Array(readback.getMappedRange(0, size).slice(0));
    readback.unmap();
    return words;
  };
  /** @param {number} buffer @param {number} offset @param {number} size */
  const read = async (buffer, offset, size) => {
    const words = new Uint32Array(size / 4);
    // Piece by piece, so that large buffers need no second one as large.
    for (let at = 0, length; at < size; at += length) {
      length = min(2 ** 24, size - at);
      words.set(
        await submit(length, (encoder, to) => encoder.copyBufferToBuffer(buffers[buffer], offset + at, to, 0, length)),
        at / 4,
      );
    }
    return words;
  };
  /** One thing at a time on the GPU. @template T @param {() => Promise<T>} job @returns {Promise<T>} */
  const locked = job => {
    const next = queue.then(() => {
      if (closed) throw closed;
      return job();
    });
    queue = next.catch(() => {});
    return next;
  };
  /** @type {Promise<any>} */
  let queue = Promise.resolve();
  /** @type {any} */
  let closed;

  // -- values: read and written

  /** Buffer by buffer, because one long copy is cheaper than many short ones. @param {(tensor: Tensor, key: string) => any} wanted */
  const readAll = async wanted => {
    const found = chosen(lasting, wanted),
      /** @type {Words[]} */ whole = [];
    for (const { buffer } of valuesOf(found)) whole[buffer] ??= await read(buffer, 0, buffers[buffer].size);
    return mapped(found, ({ buffer, offset, shape }) => whole[buffer].slice(offset / 4, offset / 4 + product(shape)));
  };
  /** @param {Named} words @param {Progress} [progress] where training stands with these values */
  const writeAll = async (words, progress) => {
    for (const key in words) device.queue.writeBuffer(buffers[tensors[key].buffer], tensors[key].offset, words[key]);
    // Nothing counts as written before something was read after it.
    await submit(4, () => {});
    if (progress) {
      model.progress = progress;
      remember(words);
    }
  };
  /** Where `recover` goes back to. @type {{words: Named, progress: Progress, at: number}} */
  let remembered;
  const remember = (/** @type {Named} */ words) => {
    remembered = { words, progress: structuredClone(model.progress), at: performance.now() };
  };

  // -- entries: inputs checked, several calls per submit, a NaN undone

  /**
   * What `visit` makes of each input; nothing where one is missing or wrong, or there is another.
   * @template T @param {string} key @param {any} batch @param {(value: any, tensor: Tensor, allowed: any) => T} visit
   * @returns {Record<string, NonNullable<T>> | undefined}
   */
  const eachInput = (key, batch, visit) => {
    const { inputs, ranges } = entries[key];
    if (!keys(Object(batch)).every(port => hasOwn(inputs, port))) return;
    const found = mapped(inputs, (id, port) => visit(batch?.[port], tensors[id], ownOf(ranges, port)));
    if (valuesOf(found).every(Boolean)) return /** @type {any} */ (found);
  };
  /** Of one call. @param {string} key */
  const inputSize = key => sizeOf(valuesOf(entries[key].inputs).map(id => tensors[id]));
  /** @param {Tensor[]} list */
  const sizeOf = list => list.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  /** Whether it is one number to watch, as a loss is. @param {Tensor} tensor */
  const isScalar = tensor => isFloat(tensor) && bytesOf(tensor) == 4;
  /** Room to undo; none where the memory is full: such a model trains, it only cannot go back by itself. @param {string} key */
  const copiesOf = async key =>
    (copies[key] ??= await scoped('copies', () =>
      [...new Set(entries[key].writes.map(id => buffers[tensors[id].buffer]))].map(
        buffer => /** @type {[GPUBuffer, GPUBuffer]} */ ([buffer, storage(buffer.size)]),
      ),
    ).catch(error => (error.code == 'memory' ? [] : Promise.reject(error))));
  /** Undoes a submit. @param {Copies} saved */
  const back = saved =>
    submit(4, encoder => {
      for (const [buffer, copy] of saved) encoder.copyBufferToBuffer(copy, 0, buffer, 0, copy.size);
    });
  /** @param {string} key */
  const stepsOf = key => ownOf(model.progress.steps, key) ?? 0;

  /**
   * One submit: a call per batch, in order; then all outputs. `stands` hears of calls that stand before one that is
   * undone.
   * @param {string} key @param {Named[]} batches @param {string[]} names @param {(n: number) => void} [stands]
   */
  const run = async (key, batches, names, stands) => {
    const { inputs, outputs, training, guard } = entries[key],
      outs = fromEntries(names.map(port => [port, tensors[outputs[port]]])),
      isGuarded = training && model.checkFinite,
      saved = isGuarded ? await copiesOf(key) : [],
      flag = isGuarded && guard && tensors[guard.flag];
    let at = 0;
    const words = await submit(
      batches.length * sizeOf(valuesOf(outs)) + 4,
      (encoder, to) => {
        const staging = spare('write', batches.length * inputSize(key) + 4),
          take = (/** @type {Tensor} */ tensor) => {
            encoder.copyBufferToBuffer(buffers[tensor.buffer], tensor.offset, to, at, bytesOf(tensor));
            at += bytesOf(tensor);
          };
        let from = 0;
        for (const [buffer, copy] of saved) encoder.copyBufferToBuffer(buffer, 0, copy, 0, copy.size);
        for (const batch of batches) {
          for (const port in inputs) {
            const { buffer, offset } = tensors[inputs[port]],
              size = batch[port].byteLength;
            device.queue.writeBuffer(staging, from, batch[port]);
            encoder.copyBufferToBuffer(staging, from, buffers[buffer], offset, size);
            from += size;
          }
          pass(encoder, commands[key][0]);
          valuesOf(outs).forEach(take);
        }
        if (flag) {
          encoder.clearBuffer(buffers[flag.buffer], flag.offset, 4);
          pass(encoder, commands[key][1]);
          take(flag);
        }
      },
      () => back(saved),
    );
    at = 0;
    const results = batches.map(() =>
        mapped(outs, tensor => fromWords(words.slice(at, (at += product(tensor.shape))), tensor)),
      ),
      bad = names.find(port => isScalar(outs[port]) && results.some(result => !isFinite(result[port][0])));
    if (isGuarded && (bad || (flag && words[at]))) {
      await back(saved);
      await (await loadInspect()).undo(inside, key, batches, saved, bad, stands);
    }
    return results;
  };

  // -- training

  /**
   * Whole data sets: rows of the first axis, in an order that seed and epoch determine.
   * @param {string} key @param {any} data @param {boolean} cycle @param {number} seed @param {number} position
   */
  const fromArrays = async (key, data, cycle, seed, position) => {
    let batch = 0, // rows of a batch, where there are more
      count = 1,
      epoch = -1,
      /** @type {any} */ order;
    const found = /** @type {any} */ (
      eachInput(key, data, (value, tensor, allowed) => {
        const list = listOf(value, tensor),
          [size, ...row] = tensor.shape,
          rows = list?.length / product(row),
          words = list && convert(list, tensor.dtype, allowed);
        if (size && rows != size) [batch, count] = [size, rows];
        return words && (size ? isInteger(rows) : rows == 1) && { size, rows, words };
      })
    );
    // One batch of labels beside a thousand rows of inputs is a mistake, not a constant.
    if (
      !cycle ||
      !found ||
      count < batch ||
      valuesOf(found).some((/** @type {any} */ { size, rows }) => rows != (size == batch ? count : (size ?? 1)))
    )
      await wrong('Rows', key, data, cycle);
    const perEpoch = batch ? floor(count / batch) : 1;
    return () => {
      const start = (position % perEpoch) * batch,
        now = floor(position++ / perEpoch);
      if (now != epoch) order = shuffled(seed, count, (epoch = now));
      return mapped(found, (/** @type {any} */ { size, rows, words }) => {
        if (size != batch) return words;
        const row = words.length / rows,
          part = words.slice(0, batch * row);
        for (let i = 0; i < batch; i++)
          part.set(words.subarray(order[start + i] * row, (order[start + i] + 1) * row), i * row);
        return part;
      });
    };
  };
  /**
   * What a function of the step gives, or an iterable: started over at its end if it can be, without what was taken
   * before training stopped.
   * @param {any} data @param {boolean} cycle @param {number} step
   */
  async function* batchesOf(data, cycle, step) {
    if (typeof data == 'function') for (;;) yield data(step++);
    let skip = model.progress.position,
      before;
    do {
      before = skip;
      for await (const batch of data) if (skip-- < 1) yield batch;
    } while (cycle && skip < before && !data.next);
    if (skip > 0) fail('data', '', 'ended before training goes on');
  }
  /** Gives the next batch, or nothing. @param {string} key @param {any} data @param {boolean} cycle @returns {Promise<() => any>} */
  const openSource = async (key, data, cycle) => {
    const step = stepsOf(key);
    if (typeof data != 'function' && !data?.[Symbol.iterator] && !data?.[Symbol.asyncIterator])
      return fromArrays(key, data, cycle, model.progress.seed, step);
    const batches = batchesOf(data, cycle, step);
    return async () => {
      const { value } = await batches.next();
      return value && (eachInput(key, value, toWords) ?? wrong('Inputs', key, value));
    };
  };
  /**
   * Trains: several steps per submit, a report every `every` steps. `data`: an object of arrays (rows are shuffled by
   * `seed`), an iterable of batches, or a function of the step's number. Leave the loop, or abort `signal`, to stop.
   * @param {any} data @param {FitOptions} [options] @returns {AsyncGenerator<Report, void, void>}
   */
  async function* fit(
    data,
    { steps, every = 10, entry = 'train', seed = model.progress.seed, resume, signal, snapshot: seconds = 15, recover: goesOn } = {},
  ) {
    const { outputs = {}, training, dispatches } = hasOwn(entries, entry) ? entries[entry] : /** @type {any} */ ({}),
      watched = keys(outputs).filter(port => isScalar(tensors[outputs[port]])),
      done = () => stepsOf(entry);
    if (!training || !watched[0] || ![steps ?? 1, every].every(n => n > 0 && isInteger(n)) || seed >>> 0 !== seed)
      await wrong('Fit', entry, { steps, every, seed });
    loadFiles().catch(() => {}); // what was trained can be saved, even if the network is gone by then
    model.progress.seed = seed;
    if (!resume) model.progress.position = 0;
    if (goesOn) remembered.at = -Infinity;
    const last = (steps ?? Infinity) + (resume ? 0 : done()),
      open = () => openSource(entry, data, steps != null);
    let fitting = 1,
      lostAt = -1,
      source = await open();
    const take = async (/** @type {number} */ step) => {
      /** @type {Named[]} */
      const found = [];
      for (let n = min(fitting, every - (step % every), last - step), batch; n-- > 0 && (batch = await source());)
        found.push(batch);
      return found;
    };
    const forward = (/** @type {number} */ n) => {
      model.progress.steps[entry] = done() + n;
      model.progress.position += n;
    };
    let next = take(done());
    for (let batches; (batches = await next).length;) {
      signal?.throwIfAborted();
      try {
        if (performance.now() - remembered.at >= 1e3 * (seconds || Infinity)) await model.snapshot();
        const started = performance.now(),
          n = batches.length,
          running = locked(async () => {
            const results = await run(entry, batches, watched, forward);
            forward(n);
            return results[n - 1];
          });
        // The next batches are prepared while the GPU works.
        next = take(done() + n);
        await Promise.allSettled([running, next]);
        const numbers = mapped(await running, ([number]) => number),
          step = done(),
          ms = (performance.now() - started) / n;
        // A submit of 40 ms keeps a page smooth; so much (steps, bytes of inputs, dispatches) is in one at most. Grows
        // slowly: the first steps say little.
        fitting = max(1, floor(min(40 / ms, 4 * n, 64, 2 ** 25 / (inputSize(entry) + 1), 2000 / dispatches.length)));
        if (step % every == 0 || step == last)
          yield { step, loss: numbers.loss ?? numbers[watched[0]], outputs: numbers, ms };
      } catch (/** @type {any} */ error) {
        // What an iterator gave cannot be had again. Lost twice at one step: the step itself does it.
        if (!goesOn || error.code != 'device-lost' || data?.next || lostAt == done()) throw error;
        lostAt = done();
        await model.recover();
        source = await open();
        next = take(done());
      }
    }
  }

  // -- the model: every entry is a method

  /** @type {any} */
  const model = {
    plan,
    /** Steps per training entry, batches taken, the shuffle's seed. */
    progress: {},
    /** Training steps that make a NaN are undone and rejected; false lets them pass. */
    checkFinite: true,

    /**
     * Runs an entry once: typed arrays (or numbers) in, typed arrays out.
     * @param {string} key @param {any} [inputs] @returns {Promise<Record<string, Values>>}
     */
    async call(key, inputs = {}) {
      const batch = hasOwn(entries, key) && eachInput(key, inputs, toWords);
      if (!batch) return wrong('Inputs', key, inputs);
      return locked(async () => {
        const { outputs, training } = entries[key],
          [result] = await run(key, [batch], keys(outputs));
        if (training) model.progress.steps[key] = stepsOf(key) + 1;
        return result;
      });
    },
    fit,
    /**
     * Back to the start: first values, no steps made. A seed draws other first values; `own`: as the bundle was built.
     * @param {number} [seed] @param {{own?: boolean}} [options]
     */
    reset: (seed, { own } = {}) =>
      locked(async () =>
        writeAll(await (own ? start(await (await loadFiles()).builtSeed(bundle), {}) : start(seed)), { steps: {}, position: 0, seed: 0 }),
      ),
    /** Remembers everything, for `recover`. `fit` does it now and then. */
    snapshot: () =>
      locked(async () => {
        remember(await readAll(() => true));
      }),
    /**
     * After a device loss: a new device, everything as at the last snapshot.
     * @param {any} [choice] a new one, where the first was not the browser's
     */
    recover: choice =>
      locked(async () => {
        if (lost) await build(choice ?? (options.device?.requestAdapter && options.device));
        await writeAll({ ...first.constants, ...remembered.words }, remembered.progress);
      }),
    /** Median milliseconds of each kernel of an entry. @param {string} [key] @param {number} [repeat] */
    profile: (key, repeat) => locked(async () => (await loadInspect()).profile(inside, key, repeat)),
    /** Frees the GPU memory. */
    dispose() {
      closed = new WgccError('closed', 'the model was disposed');
      giveUp?.(closed);
      close();
    },
  };
  // Values in and out: see files.js.
  for (const name of ['params', 'state', 'loadParams', 'save', 'restore', 'store', 'recall'])
    model[name] = (/** @type {any[]} */ ...given) =>
      locked(async () => /** @type {any} */ (await loadFiles())[name](inside, ...given));
  // A method `then` would make the model a promise to whoever awaits it.
  for (const key in entries)
    if (key != 'then') model[key] ??= (/** @type {any} */ inputs) => model.call(key, inputs);
  /** For the parts. @type {Inside} */
  const inside = {
    model,
    start,
    readAll,
    writeAll,
    submit,
    read,
    pass,
    run,
    back,
    dispatchesOf,
    now: () => ({ buffers, commands }),
  };
  try {
    await build(options.device);
    signal?.throwIfAborted();
    await model.reset();
    if (options.verify) await (await loadInspect()).verify(model);
  } catch (error) {
    model.dispose();
    throw error;
  }
  return model;
}
