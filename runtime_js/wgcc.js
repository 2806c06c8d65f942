// The runtime of wgcc bundles for browsers, Deno and Node: trains and predicts on WebGPU. No dependency, no build step.
// The twin of wgcc_runtime in Python: same checks (check.js), same error codes, same first values (more.js), same
// checkpoint files. It knows plan.json and nothing of the compiler.

import {
  bytesOf,
  checkBundle,
  crc32,
  encode,
  factsOf,
  fail,
  isFloat,
  isLasting,
  LIMITS,
  product,
  rangeOf,
  unknown,
  WgccError,
} from './check.js';

export { WgccError };

/**
 * @typedef {{kind: string, args?: Record<string, number>, values?: number[], of?: string}} Init
 * @typedef {{dtype: string, shape: number[], buffer: number, offset: number, role: string, init?: Init}} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 * @typedef {{buffer: number, offset: number, size: number}} Binding
 * @typedef {[number, number, number]} Grid
 * @typedef {{kernel: number, bindings: Binding[], grid: Grid, at?: string, label?: string}} Dispatch
 * @typedef {{low: number, high: number, ignore?: number}} Range
 * @typedef {{inputs: Record<string, string>, outputs: Record<string, string>, ranges?: Record<string, any>,
 *   dispatches: Dispatch[], writes: string[], training: boolean}} Entry
 * @typedef {{name: string, file: string, sha256: string, entry: string, workgroup: number[], access: string[]}} Kernel
 * @typedef {{generator: string, model: {name: string, vocab?: string}, requires: {features: string[], limits: Record<string, number>},
 *   buffers: {name: string, bytes: number, role: string}[], tensors: Tensors, kernels: Kernel[], entries: Record<string, Entry>,
 *   profiles?: Record<string, Record<string, {dispatch: number, kernel: number, grid: Grid}[]>>,
 *   optimizer?: Record<string, any>, selftest?: any, memory: Record<string, number>}} Plan
 * @typedef {Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>} Words  one word per element, as on the GPU
 * @typedef {Record<string, Words>} Named
 * @typedef {(Words | Uint8Array<ArrayBuffer>) & {shape: number[]}} Values  what callers get
 * @typedef {{steps: Record<string, number>, position: number, seed: number}} Progress
 * @typedef {{plan: any, kernels: Record<string, string>, weights?: () => any, constants?: string}} Bundle
 * @typedef {{device?: any, weights?: any, seed?: number, profile?: string, signal?: AbortSignal, maxBytes?: number,
 *   onProgress?: (progress: {stage: string, done: number, total: number}) => void}} Options
 * @typedef {[GPUComputePipeline, GPUBindGroup, Grid]} Command
 * @typedef {{copies: [GPUBuffer, GPUBuffer][], tests: Command[]}} Guard  what an entry changes, and room to undo it
 * @typedef {{plan: Plan, device: GPUDevice, own: boolean, name: string, profile: string, isLost?: WgccError, lost: Promise<any>, waiting: Set<(error: any) => void>, buffers: GPUBuffer[],
 *   commands: Record<string, Command[]>, guards: Record<string, Guard>, flag: GPUBuffer, spare: Record<string, GPUBuffer>}} Machine
 * @typedef {{plan: Plan, m: Machine, bundle: Bundle, options: Options, values: Named[], queue: Promise<any>, isClosed: boolean, checkFinite: boolean,
 *   progress: Progress, snapshot: {words: Named, progress: Progress, at: number}}} Context  everything of one model
 * @typedef {{step: number, loss: number, outputs: Record<string, number>, ms: number}} Report
 * @typedef {{steps?: number, every?: number, entry?: string, seed?: number, resume?: boolean, signal?: AbortSignal, snapshot?: number}} FitOptions
 */

const { assign, hasOwn, keys, values: valuesOf, entries: pairsOf, fromEntries: fromPairs } = Object;
/** What pages that only predict do not need is loaded when first used. */
const training = () => import('./train.js');
/** @param {Plan} plan @returns {Tensors} */
export const lastingOf = plan => fromPairs(pairsOf(plan.tensors).filter(pair => isLasting(pair[1])));
/** Whether it is one number to watch, as a loss is. @param {Tensor} tensor */
export const isScalar = tensor => isFloat(tensor) && bytesOf(tensor) == 4;

// ---- arrays: what callers pass, words on the GPU, and back

/** @param {string} dtype */
const wordType = dtype => (dtype[0] == 'f' ? Float32Array : dtype == 'i32' ? Int32Array : Uint32Array);
/** @type {Record<string, [number, number]>} */
const BOUNDS = { i32: [-(2 ** 31), 2 ** 31 - 1], u32: [0, 2 ** 32 - 1], u8: [0, 255], bool: [0, 1] };

/** The nearest half-precision number. @param {number} x */
function half(x) {
  const unit = 2 ** (Math.max(-14, Math.floor(Math.log2(Math.abs(x)))) - 10),
    big = 1.5 * 2 ** 52,
    rounded = (x / unit + big - big) * unit;
  return x && (Math.abs(rounded) > 65504 ? Infinity : rounded);
}

/**
 * Words of a list of numbers; a value that would be lost is refused.
 * @param {ArrayLike<any>} list @param {string} dtype @param {string} what @param {any} [allowed] @returns {Words}
 */
export function convert(list, dtype, what, allowed) {
  const type = /** @type {any} */ (wordType(dtype)),
    bounds = BOUNDS[dtype];
  const words = /** @type {Words} */ (
    list instanceof type && dtype != 'f16'
      ? /** @type {any} */ (list).slice()
      : type.from(list, dtype == 'f16' ? half : Number)
  );
  const { low, high, ignore } = rangeOf(allowed ?? bounds ?? []);
  for (let i = 0; i < words.length; i++) {
    const x = Number(list[i]);
    if (!bounds)
      Number.isFinite(words[i]) || fail('not-finite', `${what} holds ${x} at ${i}, no finite ${dtype}`, what);
    else if (!Number.isInteger(x))
      fail('dtype', `${what} holds ${x} at ${i}, but the model takes ${dtype} there`, what);
    else if (x != ignore && (x < low || x > high))
      fail('range', `${what} holds ${x} at ${i}; allowed is ${low} to ${high}`, what);
  }
  return words;
}

/**
 * A list of numbers, or one number.
 * @param {any} value @param {Tensor} tensor @param {string} what @returns {ArrayLike<any>}
 */
export function listOf(value, tensor, what) {
  const list = /number|boolean/.test(typeof value) ? [value] : value;
  if ((!Array.isArray(list) && !list?.BYTES_PER_ELEMENT) || (!isFloat(tensor) && /Float/.test(list.constructor.name)))
    fail('dtype', `${what} is no array of ${tensor.dtype}`, what);
  return list;
}

/** @param {any} value @param {Tensor} tensor @param {string} what @param {any} [allowed] @param {string} [code] */
function toWords(value, tensor, what, allowed, code = 'shape') {
  const list = listOf(value, tensor, what),
    { shape } = tensor;
  if (list.length != product(shape) || (value.shape && `${value.shape}` != `${shape}`))
    fail(code, `${what} has shape [${value.shape ?? list.length}], not [${shape}]`, what);
  return convert(list, tensor.dtype, what, allowed);
}

/** @param {ArrayBuffer} bytes @param {number} at @param {Tensor} tensor @returns {Values} */
function fromWords(bytes, at, { dtype, shape }) {
  const words = new (wordType(dtype))(bytes, at, product(shape));
  return assign(BOUNDS[dtype]?.[1] < 256 ? Uint8Array.from(words) : words.slice(), { shape });
}

/** @param {Record<string, any>} given @param {Tensors} tensors @param {string} what @returns {Named} */
export const wordsOf = (given, tensors, what) =>
  fromPairs(
    keys(given).map(key => [
      key,
      toWords(
        given[key],
        hasOwn(tensors, key)
          ? tensors[key]
          : fail('weights', `${what}: the model has no ${unknown(key, tensors)}`, key),
        `${what}: \`${key}\``,
        undefined,
        'weights',
      ),
    ]),
  );

// ---- safetensors: weights and checkpoints

/** In the order in which the format's own writer sorts them; then what is only read. @type {Record<string, any>} */
export const TYPES = {
  F32: Float32Array,
  U32: Uint32Array,
  I32: Int32Array,
  F16: Uint16Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
  BF16: Uint16Array,
  F64: Float64Array,
  I64: BigInt64Array,
  I16: Int16Array,
  I8: Int8Array,
  U16: Uint16Array,
  U64: BigUint64Array,
};
/** @param {number} h */
const fromHalf = h =>
  (h >> 15 ? -1 : 1) * (h & 0x7c00 ? 2 ** (((h >> 10) & 31) - 25) * (1024 + (h & 1023)) : 2 ** -24 * (h & 1023));
/** @param {any} source @param {string} what */
export function readTensors(source, what) {
  const bytes = new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength);
  /** @type {Record<string, any>} */
  const tensors = Object.create(null);
  let metadata,
    start = 8,
    end = 0,
    crc = 0;
  try {
    start += Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
    const { __metadata__, ...specs } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
    metadata = __metadata__;
    for (const [key, { dtype, shape, data_offsets: at }] of pairsOf(/** @type {any} */ (specs)).sort(
      (a, b) => a[1].data_offsets[0] - b[1].data_offsets[0],
    )) {
      const type = TYPES[dtype],
        data = new type(bytes.slice(start + end, start + at[1]).buffer);
      if (!shape.every(Number.isInteger) || at[0] != end || data.length != product(shape)) throw key;
      end = at[1];
      tensors[key] = assign(
        dtype == 'F16'
          ? Float32Array.from(data, fromHalf)
          : dtype == 'BF16'
            ? new Float32Array(Uint32Array.from(data, h => h << 16).buffer)
            : data,
        { shape, at },
      );
    }
    if (start + end != bytes.length) throw 'its length is wrong';
  } catch (error) {
    fail('weights', `${what} is no safetensors file: ${error}`, what);
  }
  const facts = factsOf(metadata?.wgcc, what);
  for (const key of keys(tensors).sort())
    crc = crc32(bytes.subarray(start + tensors[key].at[0], start + tensors[key].at[1]), crc32(encode(key), crc));
  if (crc != (facts.crc32 ?? crc)) fail('weights', `${what} is damaged`, what);
  return { tensors, facts };
}

// ---- the GPU: device, buffers, pipelines, one submit

const STORAGE = 0x8c,
  READ = 9; // GPUBufferUsage: STORAGE | COPY_SRC | COPY_DST, and MAP_READ | COPY_DST; absent in Node
const PIECE = 2 ** 24; // bytes read back at a time
const WAIT = 600; // seconds after which a step is taken for a shader that never ends

/** `choice`: a GPU, adapter or device; default: the browser's. @param {any} choice @param {Plan} plan */
async function openDevice(choice, { requires: { features, limits } }) {
  const gpu =
    choice ??
    globalThis.navigator?.gpu ??
    fail(
      'no-webgpu',
      'no WebGPU here: use a current browser, over https or localhost; in Node: load({device: create([])}) of the npm package webgpu',
    );
  const adapter = gpu.requestAdapter ? await gpu.requestAdapter({ powerPreference: 'high-performance' }) : gpu;
  if (!adapter) fail('no-adapter', 'WebGPU found no adapter: update the graphics driver');
  for (const key of features)
    if (!adapter.features.has(key)) {
      const advice = key == 'shader-f16' ? '; build the model with `precision = f32` for it' : '';
      fail('feature', `the adapter lacks ${key}, which the bundle needs${advice}`, key);
    }
  const wanted = pairsOf(limits).filter(([key]) => key < 'min');
  for (const [key, value] of wanted)
    if (adapter.limits[key] < value)
      fail('limit', `the adapter has ${key} = ${adapter.limits[key]}, not ${value}`, key);
  const device = adapter.requestDevice
    ? await adapter.requestDevice({
        requiredFeatures: [...features, 'timestamp-query'].filter(key => adapter.features.has(key)),
        requiredLimits: fromPairs(wanted.filter(([key, value]) => value > LIMITS[key])),
      })
    : gpu;
  const info = adapter.info ?? device.adapterInfo ?? {},
    name = info.description || `${info.vendor} ${info.architecture}`;
  const software = info.isFallbackAdapter || /llvmpipe|swiftshader|basic render|softpipe/i.test(name + info.device);
  return {
    device: /** @type {GPUDevice} */ (device),
    lost: /** @type {Promise<any>} */ (device.lost),
    own: device != gpu,
    name,
    profile: software ? 'cpu' : 'gpu',
  };
}

/**
 * Waits for the GPU, but not for ever, and never takes a lost device for success.
 * @template T @param {Machine} m @param {Promise<T>} promise @returns {Promise<T>}
 */
async function wait(m, promise) {
  let timer = /** @type {any} */ (0),
    end = timer;
  try {
    return await new Promise((resolve, reject) => {
      // No race with `lost`: a promise that lives on would keep every loser.
      m.waiting.add((end = reject));
      timer = setTimeout(reject, 1e3 * WAIT, new WgccError('time-out', 'the GPU did not finish'));
      if (m.isLost) reject(m.isLost);
      promise.then(resolve, reject);
    });
  } catch (error) {
    // A mapping may fail just before the loss is told.
    if (!(error instanceof WgccError)) await new Promise(done => setTimeout(done, 50));
    throw m.isLost ?? (error instanceof WgccError ? error : new WgccError('gpu', `the GPU refused the work: ${error}`));
  } finally {
    clearTimeout(timer);
    m.waiting.delete(end);
  }
}

/**
 * Runs `make` inside error scopes; its failures become ours.
 * @template T @param {Machine} m @param {string} what @param {() => T} make
 */
export async function scoped(m, what, make) {
  m.device.pushErrorScope('out-of-memory');
  m.device.pushErrorScope('validation');
  const made = make(),
    [invalid, memory] = await wait(m, Promise.all([m.device.popErrorScope(), m.device.popErrorScope()]));
  if (memory) fail('memory', `the GPU lacks memory for ${what}`);
  if (invalid) fail('gpu', `the GPU refused ${what}: ${invalid.message}`);
  return made;
}

/** @param {Machine} m @param {number} size @param {number} [usage] */
export const storage = (m, size, usage = STORAGE) => m.device.createBuffer({ size, usage });

/**
 * A buffer for one purpose, kept and used again; a longer one replaces it.
 * @param {Machine} m @param {string} use @param {number} size @param {number} [usage]
 */
function spare(m, use, size, usage) {
  if (m.spare[use]?.size >= size) return m.spare[use];
  m.spare[use]?.destroy();
  return (m.spare[use] = storage(m, size, usage));
}

/**
 * Buffers, pipelines and bind groups, each made once.
 * @param {Plan} plan @param {Record<string, string>} kernels @param {Options} options @returns {Promise<Machine>}
 */
export async function build(plan, kernels, { device, profile, onProgress, signal }) {
  const opened = await openDevice(device, plan);
  /** @type {any} */
  const m = {
    plan,
    ...opened,
    profile: profile ?? opened.profile,
    buffers: [],
    commands: {},
    guards: {},
    spare: {},
    waiting: new Set(),
  };
  m.lost.then((/** @type {any} */ info) => {
    m.isLost = new WgccError(
      'device-lost',
      `the GPU device was lost (${info.message || info.reason}): recover() goes back to the last snapshot`,
    );
    for (const end of m.waiting) end(m.isLost);
  });
  try {
    await scoped(m, `${plan.memory.peak} bytes`, () => {
      m.flag = storage(m, 4);
      m.buffers = plan.buffers.map(buffer => storage(m, buffer.bytes));
    });
    await compile(m, kernels, onProgress);
    signal?.throwIfAborted();
    return m;
  } catch (error) {
    close(m);
    throw error;
  }
}

/** @param {Machine} m */
function close(m) {
  for (const buffer of [
    ...m.buffers,
    ...valuesOf(m.spare),
    ...valuesOf(m.guards).flatMap(guard => guard.copies.map(copy => copy[1])),
  ])
    buffer.destroy();
  if (m.own) m.device.destroy();
}

/**
 * Pipelines compile in parallel, without blocking.
 * @param {Machine} m @param {Record<string, string>} kernels @param {Options['onProgress']} onProgress
 */
async function compile(m, kernels, onProgress) {
  const { device, plan } = m;
  const layouts = /** @type {Record<string, GPUBindGroupLayout>} */ ({}),
    pipelines = /** @type {Record<string, Promise<GPUComputePipeline>>} */ ({});
  let done = 0;
  // Stated by hand: a layout derived from the shader would lack bindings it does not use.
  const layout = (/** @type {string[]} */ access) =>
    (layouts[`${access}`] ??= device.createBindGroupLayout({
      entries: access.map((how, binding) => ({
        binding,
        visibility: 4,
        buffer: { type: how == 'read' ? 'read-only-storage' : 'storage' },
      })),
    }));
  /** @param {Kernel} kernel */
  const pipeline = ({ name: label, file, entry: entryPoint, access }) =>
    (pipelines[label] ??= device
      .createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout(access)] }),
        compute: { module: device.createShaderModule({ label, code: kernels[file] }), entryPoint },
      })
      .then(
        made => {
          onProgress?.({ stage: 'kernels', done: ++done, total: keys(pipelines).length });
          return made;
        },
        error => fail('gpu', `the GPU refused \`${label}\`: ${error.message}`, label),
      ));
  /** @param {Dispatch} dispatch @returns {Promise<Command>} */
  const command = async ({ kernel, bindings, grid }) => {
    const made = pipeline(plan.kernels[kernel]),
      group = device.createBindGroup({
        layout: layout(plan.kernels[kernel].access),
        entries: bindings.map((range, binding) => ({
          binding,
          resource: { ...range, buffer: m.buffers[range.buffer] },
        })),
      });
    return [await made, group, grid];
  };
  m.commands = fromPairs(
    await wait(
      m,
      scoped(m, 'the kernels', () =>
        Promise.all(
          keys(plan.entries).map(async key => [
            key,
            await Promise.all(dispatchesOf(plan, key, m.profile).map(command)),
          ]),
        ),
      ),
    ),
  );
}

/**
 * What an entry runs under a profile (`gpu` is the plan itself).
 * @param {Plan} plan @param {string} key @param {string} profile
 */
export function dispatchesOf(plan, key, profile) {
  const found = [...plan.entries[key].dispatches];
  for (const { dispatch, ...other } of plan.profiles?.[profile]?.[key] ?? [])
    found[dispatch] = { ...found[dispatch], ...other };
  return found;
}

/**
 * One compute pass.
 * @param {GPUCommandEncoder} encoder @param {Command[]} commands @param {GPUComputePassDescriptor} [options]
 */
export function pass(encoder, commands, options) {
  const compute = encoder.beginComputePass(options);
  for (const [pipeline, group, grid] of commands) {
    compute.setPipeline(pipeline);
    compute.setBindGroup(0, group);
    compute.dispatchWorkgroups(...grid);
  }
  compute.end();
}

/**
 * Submits what `record` records, waits, and gives the first `size` bytes of the readback buffer.
 * @param {Machine} m @param {number} size
 * @param {(encoder: GPUCommandEncoder, readback: GPUBuffer) => void} record
 */
export async function submit(m, size, record) {
  const readback = await scoped(m, 'the work', () => {
    const encoder = m.device.createCommandEncoder(),
      to = spare(m, 'read', size, READ);
    record(encoder, to);
    m.device.queue.submit([encoder.finish()]);
    return to;
  });
  await wait(m, readback.mapAsync(1, 0, size));
  const bytes = readback.getMappedRange(0, size).slice(0);
  readback.unmap();
  return bytes;
}

/** @param {Machine} m @param {number} buffer @param {number} offset @param {number} size */
export async function read(m, buffer, offset, size) {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += PIECE) {
    const length = Math.min(PIECE, size - at);
    bytes.set(
      new Uint8Array(
        await submit(m, length, (encoder, to) =>
          encoder.copyBufferToBuffer(m.buffers[buffer], offset + at, to, 0, length),
        ),
      ),
      at,
    );
  }
  return bytes.buffer;
}

// ---- the model

/**
 * @param {Plan} plan @param {string} key @param {any} batch
 * @param {(port: string, tensor: Tensor, what: string, allowed: any) => any} visit
 */
export function eachInput({ entries, tensors }, key, batch, visit) {
  const { inputs, ranges } = entries[key];
  for (const port of keys(typeof batch == 'object' ? batch : fail('data', `${key}: a batch is an object of arrays`)))
    if (!hasOwn(inputs, port)) fail('name', `\`${key}\` has no input ${unknown(port, inputs)}`, port);
  return fromPairs(
    keys(inputs).map(port => [
      port,
      batch[port] == null
        ? fail('name', `\`${key}\` needs the input \`${port}\``, port)
        : visit(port, tensors[inputs[port]], `${key}: \`${port}\``, ranges?.[port]),
    ]),
  );
}

/**
 * One call's inputs as words: every input there, of the right shape, type and range.
 * @param {Plan} plan @param {string} key @param {any} batch @returns {Named}
 */
export const checkBatch = (plan, key, batch) =>
  eachInput(plan, key, batch, (port, tensor, what, allowed) => toWords(batch[port], tensor, what, allowed));

/** Nothing trained yet. @returns {Progress} */
const none = () => ({ steps: {}, position: 0, seed: 0 });

/** Methods of a model that few pages need at once. */
const LATER = ['loadParams', 'save', 'restore', 'store', 'recall', 'snapshot', 'recover', 'profile'];

/** A loaded bundle: every entry is a method. Made by `open` (in a bundle: `load`). */
class Model {
  #c;

  static {
    // save, restore, store and so on: see train.js, which documents and holds them.
    for (const name of LATER)
      /** @type {any} */ (this.prototype)[name] = async function (/** @type {any[]} */ ...args) {
        return /** @type {any} */ (await training())[name](this.#c, ...args);
      };
  }

  /** @param {Context} c */
  constructor(c) {
    this.#c = c;
    for (const key in c.plan.entries) {
      if (!(key in this))
        Object.defineProperty(this, key, { value: (/** @type {any} */ inputs) => this.call(key, inputs) });
    }
  }

  get plan() {
    return this.#c.plan;
  }
  get device() {
    return this.#c.m.device;
  }
  /** The adapter's name, and which kernels suit it. */
  get adapter() {
    return { name: this.#c.m.name, profile: this.#c.m.profile };
  }
  /** Resolves when the device is lost. */
  get lost() {
    return this.#c.m.lost;
  }
  /** Steps per training entry, batches taken, the shuffle's seed. */
  get progress() {
    return this.#c.progress;
  }
  /** Training steps that make a NaN are undone and rejected; false lets them pass. */
  get checkFinite() {
    return this.#c.checkFinite;
  }
  set checkFinite(/** @type {boolean} */ on) {
    this.#c.checkFinite = on;
  }

  /**
   * Runs an entry once: typed arrays (or numbers) in, typed arrays out.
   * @param {string} key @param {any} [inputs] @returns {Promise<Record<string, Values>>}
   */
  async call(key, inputs = {}) {
    const c = this.#c,
      { outputs, training } = entryOf(c, key),
      batch = checkBatch(c.plan, key, inputs);
    return locked(c, async () => {
      const [result] = await run(c, key, [batch], keys(outputs));
      if (training) c.progress.steps[key] = (c.progress.steps[key] ?? 0) + 1;
      return result;
    });
  }

  /**
   * Trains: several steps per submit, a report every `every` steps. `data`: an object of arrays (rows are shuffled by
   * `seed`), an iterable of batches, or a function of the step's number. Leave the loop, or abort `signal`, to stop.
   * @param {any} data @param {FitOptions} [options] @returns {AsyncGenerator<Report, void, void>}
   */
  async *fit(data, options = {}) {
    yield* (await training()).fit(this.#c, data, options);
  }

  /** All parameters by name, as copies. */
  params() {
    return readAll(this.#c, tensor => tensor.role == 'param');
  }
  /** All state by name, optimizer moments included, as copies. */
  state() {
    return readAll(this.#c, tensor => tensor.role == 'state');
  }

  /**
   * Back to the start: first values, no steps made. A seed draws other first values; `own`: as the bundle was
   * built.
   * @param {number} [seed] @param {{own?: boolean}} [options]
   */
  reset(seed = this.#c.options.seed, { own } = {}) {
    return startAgain(this.#c, own ? undefined : seed, own ? {} : undefined);
  }

  /** Frees the GPU memory. */
  dispose() {
    if (!this.#c.isClosed) close(this.#c.m);
    this.#c.isClosed = true;
  }
}

/** @param {Context} c @param {string} key */
export const entryOf = ({ plan: { entries } }, key) =>
  hasOwn(entries, key) ? entries[key] : fail('name', `the model has no entry ${unknown(key, entries)}`, key);

/**
 * One thing at a time on the GPU.
 * @template T @param {Context} c @param {() => Promise<T>} job @returns {Promise<T>}
 */
export function locked(c, job) {
  const next = c.queue.then(() => (c.isClosed ? fail('closed', 'the model was closed') : job()));
  c.queue = next.catch(() => {});
  return next;
}

/** @param {Context} c @param {number} [seed] @param {Named} [given] */
const startAgain = async (c, seed, given) =>
  writeAll(c, { ...c.values[0], ...(await startOf(c, seed, given)) }, none());

/**
 * First values. With a seed, all that is random is drawn from it; given weights stand in any case.
 * @param {Context} c @param {number} [seed] @param {Named} [given]
 */
export async function startOf({ plan, values: [, own, weights] }, seed, given = weights) {
  const lasting = lastingOf(plan);
  /** @type {Named} */
  const found = {};
  for (const key in lasting) {
    const { shape, dtype, init: { kind, values = [] } = { kind: 'zeros' } } = lasting[key],
      old = given[key] ?? (seed == null || kind == 'external' ? own[key] : null);
    if (old) found[key] = old;
    else if (kind == 'zeros' || (kind == 'value' && `${values}` == '0'))
      found[key] = new (wordType(dtype))(product(shape));
    else if (kind != 'copy')
      found[key] = (await training()).initialValues(
        lasting[key],
        seed ?? lasting['rng/seed']?.init?.values?.[0] ?? 0,
        key,
      );
  }
  if (seed != null && found['rng/seed'] && !given['rng/seed']) found['rng/seed'] = Uint32Array.of(seed);
  for (const key in lasting) found[key] ??= found[lasting[key].init?.of ?? ''];
  return found;
}

/**
 * Buffer by buffer, because one long copy is cheaper than many short ones.
 * @param {Context} c @param {(tensor: Tensor, key: string) => boolean} wanted
 * @returns {Promise<Record<string, Values>>}
 */
export const readAll = (c, wanted) =>
  locked(c, async () => {
    const lasting = lastingOf(c.plan),
      found = keys(lasting).filter(key => wanted(lasting[key], key));
    /** @type {ArrayBuffer[]} */
    const bytes = [];
    for (const key of found)
      bytes[lasting[key].buffer] ??= await read(c.m, lasting[key].buffer, 0, c.plan.buffers[lasting[key].buffer].bytes);
    return fromPairs(found.map(key => [key, fromWords(bytes[lasting[key].buffer], lasting[key].offset, lasting[key])]));
  });

/** @param {Context} c @param {Named} words @param {Progress} [progress] where training stands with these values */
export const writeAll = (c, words, progress) =>
  locked(c, async () => {
    const {
      m,
      plan: { tensors },
    } = c;
    for (const key in words)
      m.device.queue.writeBuffer(m.buffers[tensors[key].buffer], tensors[key].offset, words[key]);
    // Nothing counts as written before something was read after it.
    await submit(m, 4, () => {});
    if (!progress) return;
    c.progress = structuredClone(progress);
    c.snapshot = {
      words: fromPairs(keys(lastingOf(c.plan)).map(key => [key, words[key]])),
      progress,
      at: performance.now(),
    };
  });

/**
 * One submit: a call per batch, in order; then all outputs. `stands` hears of calls that stand before one that is
 * undone.
 * @param {Context} c @param {string} key @param {Named[]} batches @param {string[]} names
 * @param {(n: number) => void} [stands]
 */
export async function run(c, key, batches, names, stands) {
  const {
      m,
      plan: { entries, tensors },
    } = c,
    { inputs, outputs, training: trains } = entries[key],
    ports = keys(inputs);
  const ins = ports.map(port => tensors[inputs[port]]),
    outs = names.map(port => tensors[outputs[port]]),
    sum = (/** @type {Tensor[]} */ all) => batches.length * all.reduce((total, t) => total + bytesOf(t), 0);
  const packed = new Uint8Array(sum(ins)),
    end = sum(outs),
    tools = trains && c.checkFinite && (await training()),
    guard = tools && (await tools.guardOf(m, key));
  let at = 0;
  for (const batch of batches)
    for (const port of ports)
      (packed.set(new Uint8Array(batch[port].buffer, batch[port].byteOffset, batch[port].byteLength), at),
        (at += batch[port].byteLength));
  const bytes = await submit(m, end + 4, (encoder, to) => {
    const staging = spare(m, 'write', packed.length + 4);
    let from = 0,
      into = 0;
    // Deno panics where nothing is to be written.
    if (at) m.device.queue.writeBuffer(staging, 0, packed);
    encoder.clearBuffer(m.flag);
    if (guard) for (const [buffer, copy] of guard.copies) encoder.copyBufferToBuffer(buffer, 0, copy, 0, copy.size);
    for (const _ of batches) {
      for (const t of ins)
        encoder.copyBufferToBuffer(
          staging,
          (from += bytesOf(t)) - bytesOf(t),
          m.buffers[t.buffer],
          t.offset,
          bytesOf(t),
        );
      pass(encoder, m.commands[key]);
      for (const t of outs)
        encoder.copyBufferToBuffer(m.buffers[t.buffer], t.offset, to, (into += bytesOf(t)) - bytesOf(t), bytesOf(t));
    }
    if (guard) pass(encoder, guard.tests);
    encoder.copyBufferToBuffer(m.flag, 0, to, end, 4);
  });
  at = 0;
  const results = batches.map(() =>
    fromPairs(names.map((port, i) => [port, fromWords(bytes, (at += bytesOf(outs[i])) - bytesOf(outs[i]), outs[i])])),
  );
  const bad = names.find((port, i) => isScalar(outs[i]) && results.some(result => !Number.isFinite(result[port][0])));
  if (guard && (bad || new Uint32Array(bytes, end)[0])) await tools.undo(c, key, batches, guard, bad, stands);
  return results;
}

/**
 * The bytes of a file, or what was given instead.
 * @param {any} source @param {number} limit @param {AbortSignal} [signal] @returns {Promise<any>}
 */
async function bytesAt(source, limit, signal) {
  if (typeof source != 'string' && !(source instanceof URL)) return source;
  try {
    const files =
      /^file:/.test(`${source}`) && /** @type {any} */ (globalThis).process?.getBuiltinModule?.('node:fs/promises');
    if (files) return await files.readFile(new URL(source), { signal });
    const response = await fetch(source, { signal });
    if (!response.ok || Number(response.headers.get('content-length')) > limit) throw response.status;
    return await response.arrayBuffer();
  } catch (error) {
    signal?.throwIfAborted();
    fail('weights', `cannot read ${source} (${error}); load({weights}) takes a URL or bytes`, `${source}`);
  }
}

/**
 * Constants, the bundle's own first values, and given ones.
 * @param {Plan} plan @param {Bundle} bundle @param {Options} options @returns {Promise<Named[]>}
 */
async function openValues(plan, bundle, { weights, signal }) {
  const fixed = fromPairs(pairsOf(plan.tensors).filter(([, t]) => t.role == 'constant')),
    lasting = lastingOf(plan),
    all = keys(lasting);
  const words = async (/** @type {any} */ source, /** @type {Tensors} */ tensors, /** @type {string} */ what) =>
    source
      ? wordsOf(
          source.constructor == Object
            ? source
            : readTensors(await bytesAt(source, 2 * plan.memory.peak + 2 ** 24, signal), what).tensors,
          tensors,
          what,
        )
      : {};
  const constants = await words(
    bundle.constants && Uint8Array.from(atob(bundle.constants), c => c.charCodeAt(0)),
    fixed,
    'constants',
  );
  const given = await words(weights, lasting, 'weights'),
    outside = all.filter(key => lasting[key].init?.kind == 'external');
  // Weights that replace all of the bundle's spare its file, which bundlers may have left behind.
  const own = all.every(key => given[key] || /^opt\//.test(key))
    ? {}
    : await words(bundle.weights?.(), lasting, 'weights.safetensors');
  const missing =
    keys(fixed).find(key => !constants[key]) ??
    outside.find(key => !given[key] && !own[key]) ??
    all.find(key => weights && !outside[0] && lasting[key].role == 'param' && !given[key]);
  if (missing) fail('weights', `\`${missing}\` is in no file of weights: load({weights})`, missing);
  return [constants, own, given];
}

/**
 * From a bundle to a model on the GPU; everything is checked before the first GPU call.
 * @param {Bundle} bundle @param {Options} [options] @returns {Promise<any>}
 */
export async function open(bundle, options = {}) {
  const plan = await checkBundle(bundle, options),
    progress = none();
  const found = await openValues(plan, bundle, options);
  options.onProgress?.({ stage: 'weights', done: 1, total: 1 });
  const m = await build(plan, bundle.kernels, options),
    snapshot = { words: {}, progress, at: 0 };
  const c = {
    plan,
    m,
    bundle,
    options,
    values: found,
    queue: Promise.resolve(),
    isClosed: false,
    checkFinite: true,
    progress,
    snapshot,
  };
  await startAgain(c, options.seed);
  return new Model(c);
}
