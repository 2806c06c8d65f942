// The runtime of wgcc bundles for browsers, Deno and Node: checks a bundle, then trains and predicts on WebGPU. No
// dependency, no build step. The twin of wgcc_runtime in Python: same checks and error codes, same first values, same
// checkpoint files. It knows plan.json and nothing of the compiler. What pages need rarely (values drawn from a seed,
// the self-test, times, where a NaN came from) is in more.js, which is loaded when first used.

/**
 * @typedef {{kind: string, args?: Record<string, number>, values?: number[], of?: string}} Init
 * @typedef {{dtype: string, shape: number[], buffer: number, offset: number, role: string, init?: Init}} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 * @typedef {{buffer: number, offset: number, size: number}} Binding
 * @typedef {[number, number, number]} Grid
 * @typedef {{kernel: number, bindings: Binding[], grid: Grid, at?: string, label?: string}} Dispatch
 * @typedef {{inputs: Record<string, string>, outputs: Record<string, string>, ranges?: Record<string, any>,
 *   dispatches: Dispatch[], writes: string[], training: boolean}} Entry
 * @typedef {{name: string, file: string, sha256: string, entry: string, workgroup: number[], access: string[],
 *   subgroup?: number}} Kernel
 * @typedef {{model: {name: string, vocab?: string}, requires: {features: string[], limits: Record<string, number>}, kernels: Kernel[],
 *   buffers: {name: string, bytes: number, role: string}[], tensors: Tensors, entries: Record<string, Entry>,
 *   profiles?: Record<string, Record<string, {dispatch: number, kernel: number, grid: Grid}[]>>,
 *   optimizer?: Record<string, any>, selftest?: any, memory: Record<string, number>}} Plan
 * @typedef {Uint32Array<ArrayBuffer>} Words  one word per element, as on the GPU, whatever the element type
 * @typedef {Record<string, Words>} Named
 * @typedef {(Float32Array | Int32Array | Uint32Array | Uint8Array) & {shape: number[]}} Values  what callers get
 * @typedef {{steps: Record<string, number>, position: number, seed: number}} Progress
 * @typedef {{plan: any, kernels: Record<string, string>, weights?: () => any, constants?: string}} Bundle
 * @typedef {{device?: any, weights?: any, seed?: number, profile?: string, signal?: AbortSignal, maxBytes?: number,
 *   verify?: boolean, tune?: boolean | number, onProgress?: (progress: {stage: string, done: number, total: number}) => void}} Options
 * @typedef {[GPUComputePipeline, GPUBindGroup, Grid]} Command
 * @typedef {(encoder: GPUCommandEncoder, readback: GPUBuffer) => void} Recorder
 * @typedef {{plan: Plan, key: string, device: GPUDevice, buffers: GPUBuffer[], commands: Command[],
 *   dispatches: Dispatch[], submit: (size: number, record: Recorder) => Promise<Words>,
 *   read: (buffer: number, offset: number, size: number) => Promise<Words>, locked: (job: () => any) => Promise<any>,
 *   pass: (encoder: GPUCommandEncoder, list: Command[], times?: any) => void}} Inside  of a model, for more.js
 * @typedef {{step: number, loss: number, outputs: Record<string, number>, ms: number}} Report
 * @typedef {{steps?: number, every?: number, entry?: string, seed?: number, resume?: boolean, signal?: AbortSignal,
 *   snapshot?: number, recover?: boolean}} FitOptions
 */

const { assign, hasOwn, keys, values: valuesOf, entries: pairsOf, fromEntries } = Object,
  { isInteger, isFinite } = Number,
  { isArray } = Array,
  { min, max, floor, abs } = Math;

/** A problem a caller can act on: `code` is one stable word, `field` the place in the plan or the argument. */
export class WgccError extends Error {
  /** @param {string} code @param {string} message @param {string} [field] */
  constructor(code, message, field = '') {
    super(`${code}: ${field && `\`${field}\` `}${message}`);
    this.name = 'WgccError';
    this.code = code;
    this.field = field;
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
/** @param {string} text */
const encode = text => new TextEncoder().encode(text);
/** @param {number[]} shape */
export const product = shape => shape.reduce((a, b) => a * b, 1);
/** @param {Tensor} tensor */
export const bytesOf = tensor => 4 * product(tensor.shape);
/** @param {Tensor} tensor */
export const isFloat = tensor => tensor.dtype[0] == 'f';
/** @param {Tensor} tensor */
export const isLasting = tensor => /param|state/.test(tensor.role);

// ---- the plan: its form, and what a form cannot say; the twin of plan.schema.json and validate.py

/** WebGPU's default limits, which every browser grants. @type {Record<string, number>} */
const LIMITS = {
  maxBindGroups: 4,
  maxBindingsPerBindGroup: 1000,
  maxBufferSize: 2 ** 28,
  maxStorageBufferBindingSize: 2 ** 27,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupsPerDimension: 65535,
  minStorageBufferOffsetAlignment: 256,
};

/** The plan being checked. A section may look at those before it in PLAN, which are sound by then. @type {Plan} */
let root;
/** @type {(field: string, got?: any) => never} */
const refuse = (field, got) =>
  fail('plan', field, `is not as wgcc writes it: ${JSON.stringify(got)?.slice(0, 60)}; build the model again`);
/** What a device for the plan is asked for. @param {Plan} plan @param {string} name */
const limitOf = ({ requires }, name) => max(LIMITS[name], requires.limits[name] ?? 0);
/** @param {string} limit @param {number} value @param {string} field */
const within = (limit, value, field) =>
  value <= limitOf(root, limit) || fail('limit', field, `needs ${limit} = ${value}`);

/**
 * A text's pattern, a whole number's [low, high, step], or a function that tests.
 * @typedef {RegExp | number[] | ((value: any, field: string) => any)} Form
 */
/** @param {Form} form @param {any} value @param {string} field */
const check = (form, value, field) =>
  (typeof form == 'function'
    ? form(value, field)
    : isArray(form)
      ? isInteger(value) && value >= form[0] && value <= form[1] && value % (form[2] ?? 1) == 0
      : typeof value == 'string' && form.test(value)) ||
  refuse(field, value);
/** @type {(...forms: Form[]) => Form} */
const all = (...forms) => (value, field) => forms.every(form => check(form, value, field));
/** @type {(form: Form, most?: number, least?: number) => Form} */
const list = (form, most = 1e4, least = 0) => (value, field) =>
  isArray(value) &&
  value.length >= least &&
  value.length <= most &&
  value.every((item, i) => check(form, item, `${field}[${i}]`));
/**
 * Needed keys, optional keys, and what all others hold. Looks in this order, whatever the value's own.
 * @type {(needed: Record<string, Form>, optional?: Record<string, Form>, others?: Form, names?: Form, most?: number) => Form}
 */
const record = (needed, optional, others, names = NAME, most = 256) => {
  /** @type {any} */
  const forms = { __proto__: null, ...needed, ...optional },
    order = keys(forms);
  return (value, field) => {
    const place = (/** @type {string} */ key) => (field && field + '.') + key;
    return (
      value &&
      typeof value == 'object' &&
      !isArray(value) &&
      keys(value).length <= most &&
      order.every(key =>
        hasOwn(value, key)
          ? check(forms[key], value[key], place(key))
          : !hasOwn(needed, key) || refuse(field, `no ${key}`),
      ) &&
      keys(value).every(
        key =>
          forms[key] ||
          (check(names, key, place(key)) && check(others ?? (() => false), value[key], place(key))),
      )
    );
  };
};
/** Any names, one form. @type {(form: Form, most?: number, names?: Form) => Form} */
const table = (form, most, names) => record({}, {}, form, names, most);
/** A name or an index in a section. @type {(section: 'buffers' | 'tensors' | 'kernels' | 'entries') => Form} */
const known = section => value =>
  typeof value == (isArray(root[section]) ? 'number' : 'string') && hasOwn(root[section], value);
/** Lies within its buffer. @type {Form} */
const fits = place => place.offset + (place.size ?? bytesOf(place)) <= root.buffers[place.buffer].bytes;
/** Names and files are given once. @type {(items: {name: string, file?: string}[], field: string) => boolean} */
const unique = (items, field) =>
  items.every(
    (one, i) =>
      items.findIndex(item => item.name == one.name || (item.file && item.file == one.file)) == i ||
      refuse(`${field}[${i}]`, one.name),
  );
/** Lasting tensors and an entry's inputs each own their memory; outputs may share it. @param {string[]} names */
const disjoint = names =>
  [...new Set(names)]
    .map(key => ({ key, size: bytesOf(root.tensors[key]), ...root.tensors[key] }))
    .sort((a, b) => a.buffer - b.buffer || a.offset - b.offset)
    .every(
      (b, i, { [i - 1]: a }) =>
        a?.buffer != b.buffer ||
        a.offset + a.size <= b.offset ||
        // Equal constants may be one.
        (a.role + b.role == 'constantconstant' && a.offset == b.offset && a.size == b.size) ||
        refuse(`tensors.${b.key}`, `overlaps ${a.key}`),
    );
/** Whether a kernel may have these bindings. @type {(kernel: number, bindings: Binding[], field: string) => boolean} */
const usable = (kernel, bindings, field) => {
  const { access } = root.kernels[kernel];
  if (access.length != bindings.length) refuse(`${field}.bindings`, bindings);
  return bindings.every((one, i) =>
    bindings.slice(0, i).every(
      (other, j) =>
        one.buffer != other.buffer ||
        access[i] + access[j] == 'readread' ||
        // WebGPU forbids one buffer as read and read_write at once, even in disjoint ranges.
        (access[i] == access[j] && (one.offset >= other.offset + other.size || other.offset >= one.offset + one.size)) ||
        refuse(`${field}.bindings[${i}]`, one),
    ),
  );
};

const NAME = /^(?!(__proto__|constructor|prototype)$)[A-Za-z_]\w{0,126}$/,
  PATH = /^(?!(__proto__|constructor|prototype)$)[A-Za-z_][\w./]{0,254}$/,
  HASH = /^[0-9a-f]{64}$/,
  TEXT = /^[^]{0,256}$/,
  COUNT = [0, 2 ** 53 - 1],
  WORD = [-(2 ** 31), 2 ** 32 - 1],
  SIZE = [4, 2 ** 40, 4],
  GRID = list([1, 65535], 3, 3),
  PORTS = table(known('tensors')),
  LASTING = all(known('tensors'), key => isLasting(root.tensors[key])),
  /** @type {Form} */ FLAG = value => value === !!value,
  /** @type {Form} */ NUMBER = isFinite;
const BUFFER = record({
  name: PATH,
  bytes: all(SIZE, (bytes, field) => within('maxBufferSize', bytes, field)),
  role: /^(params|state|grads|temp|input|output|constant)$/,
});
const TENSOR = record(
  {
    dtype: /^(f32|f16|i32|u32|u8|bool)$/,
    shape: list([1, 2 ** 31 - 1], 16),
    buffer: known('buffers'),
    offset: [0, 2 ** 40, 4],
    role: /^(param|state|constant|input|output)$/,
  },
  {
    trainable: FLAG,
    init: record(
      { kind: /^(value|zeros|ones|external|(trunc_|kaiming_)?normal|(kaiming_|xavier_)?uniform|orthogonal|copy)$/ },
      { of: PATH, args: table(NUMBER, 8), values: list(NUMBER, 1e9) },
    ),
  },
);
/** What `copy` names starts otherwise and has the same shape. @param {Tensors} tensors */
const copied = tensors =>
  keys(tensors).every(key => {
    const { init, shape } = tensors[key],
      other = tensors[init?.of ?? ''];
    return (
      init?.kind != 'copy' ||
      (/param|state/.test(other?.role) && other.init?.kind != 'copy' && `${other.shape}` == `${shape}`) ||
      refuse(`tensors.${key}.init`, init)
    );
  });
const KERNEL = record(
  {
    name: NAME,
    file: /^\w[\w.-]{0,58}\.wgsl$/,
    sha256: HASH,
    entry: NAME,
    workgroup: all(
      list([1, 1024], 3, 3),
      (/** @type {number[]} */ sizes, field) =>
        sizes.every((size, i) => within(`maxComputeWorkgroupSize${'XYZ'[i]}`, size, field)) &&
        within('maxComputeInvocationsPerWorkgroup', product(sizes), field),
    ),
    access: all(list(/^read(_write)?$/, 64, 1), (access, field) =>
      within('maxStorageBuffersPerShaderStage', access.length, field),
    ),
  },
  { subgroup: [4, 128] },
);
const BINDING = record({
  buffer: known('buffers'),
  offset: [0, 2 ** 40, 256],
  size: all(SIZE, (size, field) => within('maxStorageBufferBindingSize', size, field)),
});
const ENTRY = record(
  {
    inputs: PORTS,
    outputs: PORTS,
    writes: list(LASTING),
    training: FLAG,
    dispatches: list(
      all(
        record(
          { kernel: known('kernels'), grid: GRID, bindings: list(all(BINDING, fits), 64, 1) },
          { at: TEXT, label: TEXT, flops: COUNT },
        ),
        ({ kernel, bindings }, field) => usable(kernel, bindings, field),
      ),
    ),
  },
  {
    doc: /^[^]{0,65536}$/,
    ranges: table((value, field) =>
      check(isArray(value) ? list(WORD, 2, 2) : record({ low: WORD, high: WORD }, { ignore: WORD }), value, field),
    ),
  },
);
/** Inputs are inputs and do not overlap; ranges are theirs. @param {Entry} entry @param {string} field */
const ported = ({ inputs, ranges }, field) => {
  for (const port in inputs)
    root.tensors[inputs[port]].role == 'input' || refuse(`${field}.inputs.${port}`, inputs[port]);
  for (const port in ranges) {
    const { low, high } = rangeOf(ranges[port]);
    (hasOwn(inputs, port) && !isFloat(root.tensors[inputs[port]]) && low <= high) ||
      refuse(`${field}.ranges.${port}`, ranges[port]);
  }
  const owners = keys(root.tensors).filter(key => /param|state|cons/.test(root.tensors[key].role));
  return disjoint([...owners, ...valuesOf(inputs)]);
};
/** Sums of the buffers. @param {Record<string, number>} memory */
const summed = memory =>
  keys(memory).every(key => {
    // params, state, grads, temps and constants begin as the roles do; io is input and output.
    const role = key == 'peak' ? /^/ : key == 'io' ? /put/ : RegExp(key.slice(0, 4)),
      found = root.buffers.reduce((sum, buffer) => sum + (role.test(buffer.role) ? buffer.bytes : 0), 0);
    return memory[key] == found || refuse(`memory.${key}`, memory[key]);
  });
/** Other kernels for some dispatches, each replaced once. @param {any} profile @param {string} field */
const replaced = (profile, field) =>
  keys(profile).every(key =>
    profile[key].every((/** @type {any} */ { dispatch, kernel }, /** @type {number} */ i) => {
      const old = root.entries[key].dispatches[dispatch],
        isFirst = profile[key].findIndex((/** @type {any} */ other) => other.dispatch == dispatch) == i;
      return (
        ((old && isFirst) || refuse(`${field}.${key}[${i}].dispatch`, dispatch)) &&
        usable(kernel, old.bindings, `${field}.${key}[${i}]`)
      );
    }),
  );
/** Draws every input, and expects outputs of every step. @param {Record<string, any>} tests @param {string} field */
const testable = (tests, field) =>
  keys(tests).every(key => {
    const { inputs, outputs, steps } = tests[key],
      entry = root.entries[key],
      place = `${field}.${key}.`;
    `${keys(inputs).sort()}` == `${keys(entry.inputs).sort()}` || refuse(`${place}inputs`, keys(inputs));
    outputs.length == steps || refuse(`${place}outputs`, steps);
    return outputs.every((/** @type {any} */ found, /** @type {number} */ i) =>
      keys(found).every(port => hasOwn(entry.outputs, port) || refuse(`${place}outputs[${i}].${port}`)),
    );
  });
const PLAN = record(
  {
    format: /^wgcc-bundle$/,
    version: [1, 1],
    generator: /^[^]{0,64}$/,
    model: record({ name: NAME, source: /^[^/\\\x00-\x1f]{1,128}$/, sha256: HASH }, { vocab: /^[^]{1,65536}$/ }),
    requires: record({
      features: list(/^[a-z][a-z0-9-]{0,63}$/, 32),
      limits: table(COUNT, 12, key => hasOwn(LIMITS, key)),
    }),
    buffers: all(list(BUFFER), unique),
    tensors: all(table(all(TENSOR, fits), 1e4, PATH), copied),
    kernels: all(list(KERNEL), unique),
    entries: all(
      table(all(ENTRY, ported)),
      entries => valuesOf(entries).reduce((sum, { dispatches }) => sum + dispatches.length, 0) <= 1e4,
    ),
    memory: all(
      record({ peak: COUNT }, { params: COUNT, state: COUNT, grads: COUNT, temps: COUNT, constants: COUNT, io: COUNT }),
      summed,
    ),
  },
  {
    profiles: table(
      all(table(list(record({ dispatch: COUNT, kernel: known('kernels'), grid: GRID })), 256, known('entries')), replaced),
      32,
    ),
    optimizer: table(record({ kind: NAME, step: LASTING, entry: list(known('entries')) }, {}, () => 1, /^/), 64),
    selftest: record({
      seed: [0, 2 ** 32 - 1],
      entries: all(
        table(
          record(
            {
              inputs: table(
                all(
                  record({ kind: /^(uniform|integers)$/, low: NUMBER, high: NUMBER }),
                  ({ kind, low, high }) => low <= high && (kind == 'uniform' || (isInteger(low) && isInteger(high))),
                ),
              ),
              steps: [1, 1000],
              outputs: list(table(record({ sum: NUMBER, abs: NUMBER, first: list(NUMBER, 8) })), 1000),
              tolerance: NUMBER,
            },
            {
              changes: record({
                tolerance: NUMBER,
                tensors: table(record({ mean: NUMBER, size: NUMBER, at: list(NUMBER, 8, 1), scale: NUMBER }), 1e4, LASTING),
              }),
            },
          ),
          256,
          known('entries'),
        ),
        testable,
      ),
    }),
  },
);

/**
 * The plan, checked: a `WgccError` with code `plan`, `limit` or `version` names the first field that is wrong.
 * @param {any} plan an object; of a text, parsing would have hidden repeated keys, so none is taken @returns {Plan}
 */
export function checkPlan(plan) {
  if (plan?.format == 'wgcc-bundle' && isInteger(plan.version) && plan.version != 1)
    fail('version', 'version', `is ${plan.version}, by ${plan.generator}; this runtime reads 1: build the model again`);
  root = plan;
  if (plan?.format != 'wgcc-bundle') refuse('format');
  check(PLAN, plan, '');
  return plan;
}

/**
 * Refuses a kernel that was changed, or that would crash a shader compiler (Deno's): see wgsl_guard.py.
 * @param {Kernel} kernel @param {Record<string, string>} kernels
 */
async function checkKernel({ file, sha256 }, kernels) {
  const source = kernels[file] ?? fail('bundle', file, 'is missing'),
    digest = new Uint8Array(await crypto.subtle.digest('SHA-256', encode(source)));
  if (digest.some((byte, i) => byte != parseInt(sha256.slice(2 * i, 2 * i + 2), 16)))
    fail('bundle', file, 'was changed after the bundle was built: build it again');
  const text = source.replace(/\/\/[^\n\v\f\r\x85\u2028\u2029]*|\/\*[^]*?\*\//g, ' '),
    parts = text.split(/[;{}]/);
  let depth = 0,
    deepest = 0;
  for (const [bracket] of text.matchAll(/[([{)\]}]/g))
    deepest = max(deepest, (depth += '([{'.includes(bracket) ? 1 : -1));
  if (
    deepest > 256 ||
    parts.length > 1e4 ||
    text.split(/\belse\b/)[1024] ||
    parts.some(part => part.split(/[-+*/%&|^!~<>=.([]/)[1025] != null)
  )
    fail('kernel', file, 'is too deeply nested, or too long, for GPU drivers');
}

// ---- arrays: what callers pass, words on the GPU, and back

/** @type {Record<string, [number, number]>} */
const BOUNDS = { i32: [-(2 ** 31), 2 ** 31 - 1], u32: [0, 2 ** 32 - 1], u8: [0, 255], bool: [0, 1] };
/** @param {any} range @returns {{low: number, high: number, ignore?: number}} */
const rangeOf = range => (isArray(range) ? { low: range[0], high: range[1] } : range);
/** @param {string} dtype */
const typeOf = dtype => (dtype[0] == 'f' ? Float32Array : dtype == 'i32' ? Int32Array : Uint32Array);

/** The bits of the nearest half-precision number. @param {number} x */
function toHalf(x) {
  const size = abs(x),
    exponent = max(-14, floor(Math.log2(size))),
    big = 1.5 * 2 ** 52; // adding it rounds to whole numbers, to even ones between two
  return (
    ((x || 1 / x) < 0 ? 0x8000 : 0) |
    (size < 65520 ? ((exponent + 14) << 10) + (size / 2 ** (exponent - 10) + big - big) : 0x7c00)
  );
}
/** @param {number} bits */
function fromHalf(bits) {
  const exponent = (bits >> 10) & 31;
  return (
    (bits >> 15 ? -1 : 1) *
    (exponent > 30 ? Infinity : 2 ** ((exponent || 1) - 25) * ((exponent && 1024) + (bits & 1023)))
  );
}

/**
 * Words of a list of numbers; a value that would be lost is refused.
 * @param {ArrayLike<any>} list @param {string} dtype @param {string} field @param {any} [allowed] @returns {Words}
 */
export function convert(list, dtype, field, allowed) {
  const bounds = BOUNDS[dtype],
    type = /** @type {any} */ (typeOf(dtype)),
    found =
      list.constructor == type && dtype != 'f16'
        ? /** @type {any} */ (list).slice()
        : type.from(list, dtype == 'f16' ? (/** @type {any} */ x) => fromHalf(toHalf(x)) : Number),
    { low, high, ignore } = rangeOf(allowed ?? bounds ?? []);
  for (let i = 0; i < found.length; i++) {
    const x = bounds ? Number(list[i]) : found[i];
    if (bounds ? isInteger(x) && ((x >= low && x <= high) || x == ignore) : isFinite(x)) continue;
    const is = `holds ${Number(list[i])} at ${i}, `;
    if (!bounds) fail('not-finite', field, `${is}no finite ${dtype}`);
    if (!isInteger(x)) fail('dtype', field, `${is}no ${dtype}`);
    fail('range', field, `${is}not within ${low} to ${high}`);
  }
  return new Uint32Array(found.buffer);
}

/** A list of numbers, or one number. @param {any} value @param {Tensor} tensor @param {string} field */
function listOf(value, tensor, field) {
  const list = /number|boolean/.test(typeof value) ? [value] : value;
  if ((!isArray(list) && !list?.BYTES_PER_ELEMENT) || (!isFloat(tensor) && /Float/.test(list.constructor.name)))
    fail('dtype', field, `is no array of ${tensor.dtype}`);
  return list;
}

/** @param {any} value @param {Tensor} tensor @param {string} field @param {any} [allowed] @param {string} [code] */
function toWords(value, tensor, field, allowed, code = 'shape') {
  const list = listOf(value, tensor, field),
    { shape, dtype } = tensor;
  if (list.length != product(shape) || (value.shape && `${value.shape}` != `${shape}`))
    fail(code, field, `has shape [${value.shape ?? list.length}], not [${shape}]`);
  return convert(list, dtype, field, allowed);
}

/** @param {Words} words of its own @param {Tensor} tensor @returns {Values} */
const fromWords = (words, { dtype, shape }) =>
  assign(BOUNDS[dtype]?.[1] < 256 ? Uint8Array.from(words) : new (typeOf(dtype))(words.buffer), { shape });

/** @param {Record<string, any>} given @param {Tensors} tensors @param {string} from @returns {Named} */
const wordsOf = (given, tensors, from) =>
  mapped(given, (value, key) =>
    hasOwn(tensors, key)
      ? toWords(value, tensors[key], key, undefined, 'weights')
      : fail('weights', key, `of ${from} is not in the model`),
  );

// ---- safetensors: weights and checkpoints

/** In the order in which the format's own writer sorts them; then what is only read. @type {Record<string, any>} */
const TYPES = {
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

/** @param {any} source @param {string} field */
export function readTensors(source, field) {
  const bytes = new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength),
    /** @type {any} */ facts = {};
  /** @type {Record<string, any>} */
  const tensors = { __proto__: null };
  let start = 8,
    end = 0,
    crc = 0;
  try {
    start += Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
    const { __metadata__, ...specs } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
    for (const [key, { dtype, shape, data_offsets: at }] of pairsOf(/** @type {any} */ (specs)).sort(
      (a, b) => a[1].data_offsets[0] - b[1].data_offsets[0],
    )) {
      const data = new TYPES[dtype](bytes.slice(start + end, start + at[1]).buffer);
      if (!shape.every(isInteger) || at[0] != end || data.length != product(shape)) throw key;
      end = at[1];
      tensors[key] = assign(
        dtype == 'F16'
          ? Float32Array.from(data, fromHalf)
          : dtype == 'BF16'
            ? new Float32Array(Uint32Array.from(data, bits => bits << 16).buffer)
            : data,
        { shape, at },
      );
    }
    if (start + end != bytes.length) throw 'its length is wrong';
    assign(facts, JSON.parse(__metadata__?.wgcc ?? '{"format":"wgcc-checkpoint","version":1}'));
  } catch (error) {
    fail('weights', field, `is no safetensors file: ${error}`);
  }
  for (const key of keys(tensors).sort())
    crc = crc32(bytes.subarray(start + tensors[key].at[0], start + tensors[key].at[1]), crc32(encode(key), crc));
  const { format, version, steps = {}, data } = facts,
    { position = 0, seed = 0 } = data ?? {};
  if (
    format != 'wgcc-checkpoint' ||
    crc != (facts.crc32 ?? crc) ||
    steps?.constructor != Object ||
    ![...valuesOf(steps), position, seed].every(n => n >= 0 && isInteger(n))
  )
    fail('weights', field, 'is damaged');
  if (version != 1) fail('version', field, `has version ${version}, not 1`);
  return { tensors, progress: { steps, position, seed } };
}

/**
 * The bytes that Python writes for the same values.
 * @param {Record<string, Values>} found @param {Tensors} tensors @param {object} facts
 */
function writeTensors(found, tensors, facts) {
  const kind = (/** @type {string} */ key) => tensors[key].dtype.toUpperCase(),
    rank = (/** @type {string} */ key) => keys(TYPES).indexOf(kind(key)),
    sorted = keys(found).sort(),
    order = sorted.toSorted((a, b) => rank(a) - rank(b)),
    /** @type {Record<string, Uint8Array>} */ parts = {};
  let crc = 0,
    at = 0;
  for (const key of sorted) {
    parts[key] = new Uint8Array((kind(key) == 'F16' ? Uint16Array.from(found[key], toHalf) : found[key]).buffer);
    crc = crc32(parts[key], crc32(encode(key), crc));
  }
  // As Python's json.dumps spells it.
  const wgcc = JSON.stringify({ crc32: crc, ...facts }, null, 1)
      .replace(/,\n */g, ', ')
      .replace(/\n */g, ''),
    /** @type {any} */ header = { __metadata__: { wgcc } };
  for (const key of order)
    header[key] = { dtype: kind(key), shape: tensors[key].shape, data_offsets: [at, (at += parts[key].length)] };
  const json = encode(JSON.stringify(header)),
    start = 8 + json.length + (-json.length & 7),
    bytes = new Uint8Array(start + at).fill(32, 0, start);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(start - 8), true);
  bytes.set(json, 8);
  for (const key of order) bytes.set(parts[key], start + header[key].data_offsets[0]);
  return bytes;
}

// ---- random words

const CRC = new Uint32Array(256).map((_, n) => {
  for (let k = 8; k--;) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});
/** @param {Uint8Array} bytes @param {number} [crc] */
function crc32(bytes, crc = 0) {
  crc = ~crc;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

/**
 * Threefry-2x32 with 20 rounds: words that depend on seed, name, step and position alone.
 * @param {number} seed @param {string} name @param {number} count @param {number} [step]
 */
export function randomWords(seed, name, count, step = 0) {
  const second = crc32(encode(name)),
    key = [seed, second, seed ^ second ^ 0x1bd11bda];
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
  const order = randomWords(seed, 'shuffle', count, epoch);
  // Keys and places as one number sort fastest, while they fit into its 53 bits.
  return count > 2 ** 21
    ? order.map((_, i) => i).sort((a, b) => order[a] - order[b] || a - b)
    : Float64Array.from(order, (key, i) => key * count + i)
        .sort()
        .map(x => x % count);
}

// ---- one model: everything below is about the bundle that `open` was given

const STORAGE = 0x8c,
  READ = 9, // GPUBufferUsage: STORAGE | COPY_SRC | COPY_DST, and MAP_READ | COPY_DST; absent in Node
  PIECE = 2 ** 24, // bytes read back at a time
  WAIT = 6e5, // milliseconds after which a step is taken for a shader that never ends
  SUBMIT = { ms: 40, steps: 64, bytes: 2 ** 25, dispatches: 2000 }, // what one submit aims at, and holds at most
  SEED = 'rng/seed';
/** What pages need rarely. */
const loadMore = () => import('./more.js');
/** Nothing trained yet. @returns {Progress} */
const none = () => ({ steps: {}, position: 0, seed: 0 });
/** Saved only to go on with training. @param {string} key */
const isOptimizers = key => /^opt\//.test(key);

/** Resolves at an event of IndexedDB. @param {any} target @param {string} event @returns {Promise<any>} */
const until = (target, event) =>
  new Promise((resolve, reject) => {
    target[`on${event}`] = () => resolve(target.result);
    target.onabort = target.onerror = () => reject(target.error);
  });
/**
 * One act on the checkpoints that the browser keeps.
 * @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} act
 */
export async function stored(mode, act) {
  try {
    const opening = indexedDB.open('wgcc', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('checkpoints');
    const database = await until(opening, 'success'),
      transaction = database.transaction('checkpoints', mode),
      request = act(transaction.objectStore('checkpoints'));
    database.close(); // once the transaction has ended
    await until(transaction, 'complete');
    return request.result;
  } catch (error) {
    fail('storage', '', `the browser's storage failed: ${error}`);
  }
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
    fail('weights', `${source}`, `cannot be read (${error}): load({weights}) takes a URL or bytes`);
  }
}

/**
 * From a bundle to a model on the GPU; everything is checked before the first GPU call.
 * @param {Bundle} bundle @param {Options} [options] @returns {Promise<any>}
 */
export async function open(bundle, options = {}) {
  const plan = checkPlan(bundle.plan),
    { tensors, entries, memory, requires } = plan,
    profiles = { ...plan.profiles },
    { signal, onProgress, maxBytes = 2 ** 33 } = options,
    lasting = chosen(tensors, isLasting);
  if (memory.peak > maxBytes)
    fail('memory', 'maxBytes', `is below the ${memory.peak} bytes that the bundle takes: load({maxBytes}) raises it`);
  if (!hasOwn({ gpu: 1, ...profiles }, options.profile ?? 'gpu')) fail('name', `${options.profile}`, 'is no profile');
  await Promise.all(plan.kernels.map(kernel => checkKernel(kernel, bundle.kernels)));
  signal?.throwIfAborted();

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
  /** The test for NaN sets it. @type {GPUBuffer} */
  let flag;
  /** Buffers for one purpose, used again. @type {Record<string, GPUBuffer>} */
  let spares = {};
  /** @type {Record<string, Command[]>} */
  let commands;
  /** What an entry changes: room to undo it, and the test for NaN. @type {Record<string, [[GPUBuffer, GPUBuffer][], Command[]]>} */
  let guards = {};
  /** @type {Record<string, Promise<Command[]>>} */
  let tests;

  /** `choice`: a GPU, adapter or device; default: the browser's. @param {any} choice */
  const build = async choice => {
    const before = lost;
    lost = undefined;
    spares = {};
    guards = {};
    tests = /** @type {any} */ ({ __proto__: null });
    try {
      const gpu =
          choice ??
          globalThis.navigator?.gpu ??
          fail(
            'no-webgpu',
            '',
            'use a current browser, over https or localhost; in Node: load({device: create([])}) of npm webgpu',
          ),
        adapter = gpu.requestAdapter ? await gpu.requestAdapter({ powerPreference: 'high-performance' }) : gpu,
        { features, limits } = adapter ?? fail('no-adapter', '', 'WebGPU found none: update the graphics driver'),
        raised = chosen(requires.limits, (value, key) => key < 'min' && value > LIMITS[key]);
      for (const key of requires.features)
        features.has(key) || fail('feature', key, 'is not in this adapter; shader-f16: build with `precision = f32`');
      for (const key in raised)
        limits[key] >= raised[key] || fail('limit', key, `is ${limits[key]} here, not ${raised[key]}`);
      /** @type {GPUDevice} */
      const made = adapter.requestDevice
          ? await wait(
              adapter.requestDevice({
                requiredFeatures: [...requires.features, 'timestamp-query', 'subgroups'].filter(key => features.has(key)),
                requiredLimits: raised,
              }),
            )
          : gpu,
        info = adapter.info ?? /** @type {any} */ (made).adapterInfo ?? {},
        name = info.description || `${info.vendor} ${info.architecture}`,
        isSoftware = info.isFallbackAdapter || /llvmpipe|swiftshader|basic render|softpipe/i.test(name + info.device),
        // How many neighbouring threads can tell each other what they loaded.
        subgroup = made.features.has('subgroups') ? (info.subgroupMinSize ?? 4) : 0,
        fits = (/** @type {string} */ choice) =>
          keys(entries).every(key =>
            dispatchesOf(key, choice).every(({ kernel }) => (plan.kernels[kernel].subgroup ?? 0) <= subgroup),
          ),
        suited = isSoftware
          ? (['lavapipe', 'swiftshader'].find(choice => hasOwn(profiles, choice) && fits(choice)) ?? 'cpu')
          : 'gpu',
        tuned = `tuned_${name}`.replace(/\W+/g, '_').slice(0, 99);
      device = made;
      isOwn = made != gpu;
      model.device = made;
      model.lost = made.lost;
      if (options.tune) profiles[tuned] ??= await (await import('./tune.js')).tune(open, bundle, options, made, tuned, suited, subgroup);
      const profile =
        model.adapter?.profile ?? options.profile ?? (hasOwn(profiles, tuned) && fits(tuned) ? tuned : suited);
      fits(profile) || fail('feature', profile, 'needs larger subgroups');
      model.adapter = { name, profile };
      made.lost.then(({ message, reason }) => {
        if (made != device) return;
        lost = new WgccError('device-lost', `${message || reason}: recover() goes back to the last snapshot`);
        giveUp?.(lost);
      });
      await scoped(`the ${memory.peak} bytes of the model`, () => {
        flag = storage(4);
        buffers = plan.buffers.map(buffer => storage(buffer.bytes));
      });
      await compile();
    } catch (error) {
      close();
      lost = before ?? error;
      throw error;
    }
  };
  const close = () => {
    for (const buffer of [...buffers, ...valuesOf(spares), ...valuesOf(guards).flatMap(guard => guard[0].flat())])
      buffer.destroy();
    if (isOwn) device.destroy();
  };

  /** Waits for the GPU, but not for ever, and never takes a lost device for success. @param {Promise<any>} promise */
  const wait = async promise => {
    let timer = /** @type {any} */ (0);
    try {
      return await new Promise((resolve, reject) => {
        // No race with `device.lost`: a promise that lives on would keep every loser.
        giveUp = reject;
        timer = setTimeout(reject, WAIT, new WgccError('time-out', 'the GPU did not finish'));
        if (lost) reject(lost);
        promise.then(resolve, reject);
      });
    } catch (error) {
      // A mapping may fail just before the loss is told.
      await new Promise(done => setTimeout(done, 50));
      throw isClosed ? closed() : (lost ?? (error instanceof WgccError ? error : new WgccError('gpu', `${error}`)));
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
    if (full) fail('memory', '', `the GPU lacks memory for ${what}: a smaller batch or model needs less`);
    if (invalid) fail('gpu', '', `the GPU refused ${what}: ${invalid.message}`);
    return made;
  };
  /** @param {number} size @param {number} [usage] */
  const storage = (size, usage = STORAGE) => device.createBuffer({ size, usage });
  /** A longer one replaces it. @param {string} use @param {number} size @param {number} [usage] */
  const spare = (use, size, usage) => {
    if (spares[use]?.size >= size) return spares[use];
    spares[use]?.destroy();
    return (spares[use] = storage(size, usage));
  };

  /** What an entry runs under a profile (`gpu` is the plan itself). @param {string} key @param {string} profile */
  const dispatchesOf = (key, profile = model.adapter.profile) => {
    const found = [...entries[key].dispatches];
    for (const { dispatch, ...other } of profiles[profile]?.[key] ?? [])
      found[dispatch] = { ...found[dispatch], ...other };
    return found;
  };
  /** Stated by hand: a layout derived from the shader would lack bindings it does not use. @param {string[]} access */
  const layoutOf = access =>
    device.createBindGroupLayout({
      entries: access.map((how, binding) => ({
        binding,
        visibility: 4,
        buffer: { type: how == 'read' ? 'read-only-storage' : 'storage' },
      })),
    });
  /** @param {GPUBindGroupLayout} layout @param {string} label @param {string} code @param {string} [entryPoint] */
  const pipelineOf = (layout, label, code, entryPoint = 'main') =>
    device
      .createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module: device.createShaderModule({ label, code }), entryPoint },
      })
      .catch(error => fail('gpu', label, `was refused: ${error.message}`));
  /** @param {GPUBindGroupLayout} layout @param {Binding[]} ranges @param {GPUBuffer} [last] */
  const groupOf = (layout, ranges, last) =>
    device.createBindGroup({
      layout,
      entries: [
        ...ranges.map(range => ({ ...range, buffer: buffers[range.buffer] })),
        ...(last ? [{ buffer: last }] : []),
      ].map((resource, binding) => ({ binding, resource })),
    });
  /** Pipelines compile in parallel, without blocking. */
  const compile = async () => {
    /** @type {[GPUBindGroupLayout, Promise<GPUComputePipeline>][]} */
    const made = [];
    let done = 0,
      total = 0;
    await scoped('the kernels', async () => {
      const found = mapped(entries, (_, key) =>
        dispatchesOf(key).map(async ({ kernel, bindings, grid }) => {
          const { name, file, entry, access } = plan.kernels[kernel];
          if (!made[kernel]) {
            const layout = layoutOf(access);
            total++;
            made[kernel] = [layout, pipelineOf(layout, name, bundle.kernels[file], entry)];
            made[kernel][1].then(
              () => onProgress?.({ stage: 'kernels', done: ++done, total }),
              () => {},
            );
          }
          const [layout, pipeline] = made[kernel],
            group = groupOf(layout, bindings);
          return /** @type {Command} */ ([await pipeline, group, grid]);
        }),
      );
      for (const key in entries) if (entries[key].training) testsOf(key).catch(() => {});
      const lists = await Promise.all(valuesOf(found).map(list => Promise.all(list)));
      commands = fromEntries(keys(found).map((key, i) => [key, lists[i]]));
    });
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
    const readback = await scoped(`${size} bytes to read`, () => {
      const encoder = device.createCommandEncoder(),
        to = spare('read', size, READ);
      record(encoder, to);
      device.queue.submit([encoder.finish()]);
      return to;
    }).catch(error => {
      spares = {}; // one of them may be what failed
      throw error;
    });
    try {
      await wait(readback.mapAsync(1, 0, size));
    } catch (error) {
      if (!lost) await undone?.();
      throw error;
    }
    const words = new Uint32Array(readback.getMappedRange(0, size).slice(0));
    readback.unmap();
    return words;
  };
  /** @param {number} buffer @param {number} offset @param {number} size */
  const read = async (buffer, offset, size) => {
    const words = new Uint32Array(size / 4);
    for (let at = 0; at < size; at += PIECE) {
      const length = min(PIECE, size - at);
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
      if (isClosed) throw closed();
      return job();
    });
    queue = next.catch(() => {});
    return next;
  };
  /** @type {Promise<any>} */
  let queue = Promise.resolve();
  let isClosed = false;
  const closed = () => new WgccError('closed', 'the model was disposed');

  // -- values: read, written, started with

  /** Buffer by buffer, because one long copy is cheaper than many short ones. @param {(tensor: Tensor, key: string) => any} wanted */
  const readAll = wanted =>
    locked(async () => {
      const found = chosen(lasting, wanted),
        /** @type {Words[]} */ whole = [];
      for (const { buffer } of valuesOf(found)) whole[buffer] ??= await read(buffer, 0, plan.buffers[buffer].bytes);
      const words = mapped(found, tensor => {
        const start = tensor.offset / 4;
        return whole[tensor.buffer].slice(start, start + product(tensor.shape));
      });
      // Where training stands with these values; later, other steps may have been made.
      return { words, progress: structuredClone(model.progress), at: performance.now() };
    });
  /** @param {Named} words */
  const valuesIn = words => mapped(words, (list, key) => fromWords(list, tensors[key]));
  /** @param {Named} words @param {Progress} [progress] where training stands with these values */
  const writeAll = (words, progress) =>
    locked(async () => {
      for (const key in words)
        device.queue.writeBuffer(buffers[tensors[key].buffer], tensors[key].offset, words[key]);
      // Nothing counts as written before something was read after it.
      await submit(4, () => {});
      if (progress) {
        model.progress = structuredClone(progress);
        remembered = { words: chosen(words, (_, key) => hasOwn(lasting, key)), progress, at: performance.now() };
      }
    });
  /** The last snapshot. @type {{words: Named, progress: Progress, at: number}} */
  let remembered;

  /** @param {any} source @param {Tensors} wanted @param {string} from @returns {Promise<Named>} */
  const load = async (source, wanted, from) =>
    source
      ? wordsOf(
          source.constructor == Object
            ? source
            : readTensors(await bytesAt(source, 2 * memory.peak + 2 ** 24, signal), from).tensors,
          wanted,
          from,
        )
      : {};
  const fixed = chosen(tensors, tensor => tensor.role == 'constant'),
    constants = await load(
      bundle.constants && Uint8Array.from(atob(bundle.constants), c => c.charCodeAt(0)),
      fixed,
      'constants',
    ),
    weights = await load(options.weights, lasting, 'weights'),
    // Weights that replace all of the bundle's spare its file, which bundlers may have left behind.
    own = keys(lasting).every(key => weights[key] || isOptimizers(key))
      ? {}
      : await load(bundle.weights?.(), lasting, 'weights.safetensors'),
    outside = keys(lasting).filter(key => lasting[key].init?.kind == 'external'),
    missing =
      keys(fixed).find(key => !constants[key]) ??
      outside.find(key => !weights[key] && !own[key]) ??
      keys(lasting).find(key => options.weights && !outside[0] && lasting[key].role == 'param' && !weights[key]);
  if (missing) fail('weights', missing, 'is in no file of weights: load({weights})');
  onProgress?.({ stage: 'weights', done: 1, total: 1 });

  /**
   * First values. With a seed, all that is random is drawn from it; given weights stand in any case.
   * @param {number | null} [seed] @param {Named} [given]
   */
  const start = async (seed = options.seed, given = weights) => {
    /** @type {Named} */
    const found = {};
    for (const key in lasting) {
      const { shape, init: { kind, values = [] } = { kind: 'zeros' } } = lasting[key],
        old = given[key] ?? (seed == null || kind == 'external' ? own[key] : null);
      if (old) found[key] = old;
      else if (kind == 'zeros' || (kind == 'value' && `${values}` == '0')) found[key] = new Uint32Array(product(shape));
      else if (kind != 'copy')
        found[key] = (await loadMore()).initialValues(lasting[key], seed ?? lasting[SEED]?.init?.values?.[0] ?? 0, key);
    }
    if (seed != null && found[SEED] && !given[SEED]) found[SEED] = Uint32Array.of(seed);
    for (const key in lasting) found[key] ??= found[lasting[key].init?.of ?? ''];
    return { ...constants, ...found };
  };

  // -- entries: inputs checked, several calls per submit, a NaN undone

  /** @param {string} key */
  const entryOf = key =>
    hasOwn(entries, key) ? entries[key] : fail('name', key, `is no entry; there are: ${keys(entries)}`);
  /**
   * @param {string} key @param {any} batch
   * @param {(value: any, tensor: Tensor, field: string, allowed: any) => any} visit
   */
  const eachInput = (key, batch, visit) => {
    const { inputs, ranges } = entries[key];
    if (!batch || typeof batch != 'object') fail('data', key, 'takes an object of arrays');
    for (const port of keys(batch))
      hasOwn(inputs, port) || fail('name', port, `is no input of ${key}; there are: ${keys(inputs)}`);
    return mapped(inputs, (id, port) =>
      batch[port] == null
        ? fail('name', port, `is missing: ${key} needs it`)
        : visit(batch[port], tensors[id], `${key}.${port}`, ranges?.[port]),
    );
  };
  /**
   * One call's inputs as words: every input there, of the right shape, type and range.
   * @param {string} key @param {any} batch @returns {Named}
   */
  const checkBatch = (key, batch) =>
    eachInput(key, batch, (value, tensor, field, allowed) => toWords(value, tensor, field, allowed));
  /** Whether it is one number to watch, as a loss is. @param {Tensor} tensor */
  const isScalar = tensor => isFloat(tensor) && bytesOf(tensor) == 4;

  /**
   * One submit: a call per batch, in order; then all outputs. `stands` hears of calls that stand before one that is
   * undone.
   * @param {string} key @param {Named[]} batches @param {string[]} names @param {(n: number) => void} [stands]
   */
  const run = async (key, batches, names, stands) => {
    const { inputs, outputs, training } = entries[key],
      ins = valuesOf(inputs).map(id => tensors[id]),
      outs = names.map(port => tensors[outputs[port]]),
      guard = training && model.checkFinite && (await guardOf(key)),
      size = (/** @type {Tensor[]} */ list) => batches.length * list.reduce((sum, tensor) => sum + bytesOf(tensor), 0),
      packed = new Uint32Array(size(ins) / 4),
      end = size(outs);
    let at = 0;
    for (const batch of batches)
      for (const port in inputs) {
        packed.set(batch[port], at);
        at += batch[port].length;
      }
    /** @type {Recorder} */
    const steps = (encoder, to) => {
      const staging = spare('write', 4 * at + 4);
      let from = 0,
        into = 0;
      // Deno panics where nothing is to be written.
      if (at) device.queue.writeBuffer(staging, 0, packed);
      encoder.clearBuffer(flag);
      if (guard) for (const [buffer, copy] of guard[0]) encoder.copyBufferToBuffer(buffer, 0, copy, 0, copy.size);
      for (const _ of batches) {
        for (const tensor of ins) {
          encoder.copyBufferToBuffer(staging, from, buffers[tensor.buffer], tensor.offset, bytesOf(tensor));
          from += bytesOf(tensor);
        }
        pass(encoder, commands[key]);
        for (const tensor of outs) {
          encoder.copyBufferToBuffer(buffers[tensor.buffer], tensor.offset, to, into, bytesOf(tensor));
          into += bytesOf(tensor);
        }
      }
      if (guard) pass(encoder, guard[1]);
      encoder.copyBufferToBuffer(flag, 0, to, end, 4);
    };
    const words = await submit(end + 4, steps, () => guard && back(guard[0]));
    at = 0;
    const results = batches.map(() =>
        fromEntries(
          names.map((port, i) => [port, fromWords(words.slice(at, (at += product(outs[i].shape))), outs[i])]),
        ),
      ),
      bad = names.find((port, i) => isScalar(outs[i]) && results.some(result => !isFinite(result[port][0])));
    if (guard && (bad || words[end / 4])) await undo(key, batches, guard[0], bad, stands);
    return results;
  };

  /** What an entry changes: room to undo a submit, and a test of it. Made once. @param {string} key */
  const guardOf = async key => {
    if (hasOwn(guards, key)) return guards[key];
    // Room to undo; none where the memory is full: such a model trains, it only cannot go back by itself.
    const copies = await scoped('copies', () =>
      [...new Set(entries[key].writes.map(id => buffers[tensors[id].buffer]))].map(
        buffer => /** @type {[GPUBuffer, GPUBuffer]} */ ([buffer, storage(buffer.size)]),
      ),
    ).catch(error => (error.code == 'memory' ? [] : Promise.reject(error)));
    return (guards[key] = [copies, await scoped('the test for NaN', () => testsOf(key))]);
  };
  /** Tests of all floats that an entry writes; begun while other kernels compile. @param {string} key */
  const testsOf = key =>
    (tests[key] ??= Promise.all(runsOf(entries[key].writes).map(testOf)).catch(error => {
      delete tests[key];
      throw error;
    }));
  /** What tensors cover, as many ranges at a time as fit beside the flag. @param {string[]} writes */
  const runsOf = writes => {
    const written = writes
        .map(id => tensors[id])
        .filter(isFloat)
        .sort((a, b) => a.buffer - b.buffer || a.offset - b.offset),
      packed = written.filter(tensor => tensor.offset % 256).map(tensor => tensor.buffer),
      /** @type {Binding[]} */ runs = [];
    for (const tensor of written) {
      const last = runs.at(-1),
        { buffer, offset } = tensor,
        size = bytesOf(tensor),
        gap = offset - (last?.offset ?? 0) - (last?.size ?? 0);
      // Between packed tensors lies other data; between tensors on boundaries lies padding, which stays zero.
      if (
        last?.buffer == buffer &&
        gap < (packed.includes(buffer) ? 1 : 256) &&
        last.size + gap + size + 256 <= limitOf(plan, 'maxStorageBufferBindingSize')
      )
        last.size += gap + size;
      else runs.push({ buffer, offset, size });
    }
    // An optimizer's tensors take one dispatch.
    const found = [];
    while (runs[0]) found.push(runs.splice(0, 7));
    return found;
  };
  /**
   * Sets the flag when a word of a range is NaN or infinite. Tests bits, as compilers may assume that NaN does not
   * occur. A binding starts on a boundary, so what lies before a range is skipped. The twin of finite.wgsl.
   * @param {Binding[]} runs @returns {Promise<Command>}
   */
  const testOf = async runs => {
    const layout = layoutOf([...runs.map(() => 'read'), '']),
      skips = runs.map(run => run.offset % 256),
      group = groupOf(
        layout,
        runs.map(({ buffer, offset, size }, i) => ({ buffer, offset: offset - skips[i], size: size + skips[i] })),
        flag,
      ),
      code = `${skips.map((_, i) => `@group(0) @binding(${i}) var<storage> v${i}: array<u32>;`).join('')}
@group(0) @binding(${runs.length}) var<storage, read_write> flag: atomic<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) n: vec3u) {
  ${skips.map((skip, i) => `for (var i = ${skip / 4} + id.x; i < arrayLength(&v${i}); i += 64 * n.x) {
    if (~v${i}[i] & 0x7f800000) == 0 { atomicOr(&flag, 1); }
  }`).join('')}
}`;
    return [
      await pipelineOf(layout, 'finite', code),
      group,
      [min(1024, Math.ceil(max(...runs.map(run => run.size)) / 16384)), 1, 1],
    ];
  };
  /** Undoes a submit. @param {[GPUBuffer, GPUBuffer][]} copies */
  const back = copies =>
    submit(4, encoder => {
      for (const [buffer, copy] of copies) encoder.copyBufferToBuffer(copy, 0, buffer, 0, copy.size);
    });
  /**
   * Goes back to before the call that made a NaN, and says where it came from.
   * @param {string} key @param {Named[]} batches @param {[GPUBuffer, GPUBuffer][]} copies @param {string} [output]
   * @param {(n: number) => void} [stands]
   */
  const undo = async (key, batches, copies, output, stands) => {
    let where = '; there was no memory to undo the step: restore the last checkpoint';
    if (copies[0]) {
      await back(copies);
      if (batches.length > 1) {
        for (const batch of batches) {
          await run(key, [batch], output ? [output] : []);
          stands?.(1);
        }
        return;
      }
      where = `${await (await loadMore()).blame(inside(key))}; the model is as it was before that step`;
      await back(copies);
    }
    fail(
      'nan',
      key,
      `step ${stepsOf(key) + batches.length}: ${output ? `\`${output}\`` : 'a parameter or state'} is not finite${where}`,
    );
  };
  /** What more.js needs of all this. @param {string} key */
  const inside = key => ({
    plan,
    key,
    device,
    buffers,
    commands: commands[key],
    dispatches: dispatchesOf(key),
    submit,
    pass,
    read,
    locked,
    storage,
  });
  /** @param {string} key */
  const stepsOf = key => model.progress.steps[key] ?? 0;

  // -- training

  /**
   * Whole data sets: rows of the first axis, in an order that seed and epoch determine.
   * @param {string} key @param {any} data @param {number} seed @param {number} position
   */
  const fromArrays = (key, data, seed, position) => {
    let batch = 0, // rows of a batch, where there are more
      count = 1,
      epoch = -1,
      /** @type {any} */ order;
    /** @type {Record<string, {size: number, rows: number, words: Words}>} */
    const found = eachInput(key, data, (value, tensor, field, allowed) => {
      const list = listOf(value, tensor, field),
        [size, ...row] = tensor.shape,
        rows = list.length / product(row);
      if (rows % 1 || (rows != 1 && !size))
        fail('shape', field, `has ${list.length} numbers; the model takes [${tensor.shape}], or more rows of that`);
      if (size && rows != size) [batch, count] = [size, rows];
      return { size, rows, words: convert(list, tensor.dtype, field, allowed) };
    });
    // One batch of labels beside a thousand rows of inputs is a mistake, not a constant.
    for (const port in found)
      if (found[port].rows != (found[port].size == batch ? count : (found[port].size ?? 1)))
        fail('shape', port, `has ${found[port].rows} rows, another input ${count}`);
    if (count < batch) fail('shape', key, `has ${count} rows, fewer than the batch of ${batch}`);
    const perEpoch = batch ? floor(count / batch) : 1;
    return () => {
      const start = (position % perEpoch) * batch,
        now = floor(position++ / perEpoch);
      if (now != epoch) order = shuffled(seed, count, (epoch = now));
      return mapped(found, ({ size, rows, words }) => {
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
   * Batches from arrays, from a function of the step, or from any iterable (started over at its end if it can be).
   * @param {string} key @param {any} data @param {boolean} cycle @returns {() => any}
   */
  const openSource = (key, data, cycle) => {
    const { seed, position } = model.progress,
      check = (/** @type {any} */ batch) => batch && checkBatch(key, batch),
      begin = () => (data?.[Symbol.asyncIterator] ?? data?.[Symbol.iterator])?.call(data);
    let step = stepsOf(key),
      skip = position,
      iterator = typeof data != 'function' && begin();
    if (iterator === false) return async () => check(await data(step++));
    if (!iterator)
      return cycle ? fromArrays(key, data, seed, step) : fail('data', 'steps', 'is missing: arrays have no end');
    const again = cycle && iterator != data;
    return async () => {
      for (;;) {
        let item = await iterator.next();
        if (item.done && again) item = await (iterator = begin()).next();
        if (item.done && skip > 0) fail('data', key, `ended before batch ${position}, where training is to go on`);
        if (item.done || skip-- <= 0) return check(item.value);
      }
    };
  };
  /**
   * Trains: several steps per submit, a report every `every` steps. `data`: an object of arrays (rows are shuffled by
   * `seed`), an iterable of batches, or a function of the step's number. Leave the loop, or abort `signal`, to stop.
   * @param {any} data @param {FitOptions} [options] @returns {AsyncGenerator<Report, void, void>}
   */
  async function* fit(
    data,
    { steps, every = 10, entry = 'train', seed, resume, signal, snapshot: seconds = 15, recover: goesOn } = {},
  ) {
    const { outputs, inputs, training, dispatches } = entryOf(entry),
      watched = keys(outputs).filter(port => isScalar(tensors[outputs[port]])),
      done = () => stepsOf(entry);
    if (!training || !watched[0]) fail('name', entry, 'does not train (no `minimize`), or returns no loss to watch');
    for (const [key, value] of pairsOf({ steps: steps ?? 1, every }))
      (value > 0 && isInteger(value)) || fail('range', key, `is a whole number above 0, not ${value}`);
    model.progress.seed = seed ?? model.progress.seed;
    if (!resume) model.progress.position = 0;
    const last = (steps ?? Infinity) + (resume ? 0 : done()),
      size = valuesOf(inputs).reduce((sum, id) => sum + bytesOf(tensors[id]), 1),
      most = min(SUBMIT.steps, SUBMIT.bytes / size, SUBMIT.dispatches / dispatches.length);
    let fitting = 1,
      lostAt = -1,
      source = openSource(entry, data, steps != null);
    const take = async (/** @type {number} */ step) => {
      /** @type {Named[]} */
      const found = [];
      for (let n = min(fitting, every - (step % every), last - step), batch; n-- > 0 && (batch = await source());)
        found.push(batch);
      return found;
    };
    const count = (/** @type {number} */ n) => {
      model.progress.steps[entry] = done() + n;
      model.progress.position += n;
    };
    let isSafe = !goesOn;
    for (let batches = await take(done()); batches.length;) {
      signal?.throwIfAborted();
      const now = batches,
        started = performance.now();
      let next, report;
      try {
        if (!isSafe) await model.snapshot();
        isSafe = true;
        // The next batches are prepared while the GPU works.
        const [ran, taken] = await Promise.allSettled([
          locked(async () => {
            const results = await run(entry, now, watched, count);
            count(now.length);
            return results[now.length - 1];
          }),
          take(done() + now.length),
        ]);
        if (ran.status == 'rejected') throw ran.reason;
        next = taken;
        const step = done(),
          ms = (performance.now() - started) / now.length,
          numbers = fromEntries(watched.map(port => [port, ran.value[port][0]]));
        // Grows slowly: the first steps say little.
        fitting = max(1, floor(min(SUBMIT.ms / ms, 4 * now.length, most)));
        if (step % every == 0 || step == last) {
          if (seconds && performance.now() - remembered.at > 1e3 * seconds) await model.snapshot();
          report = { step, loss: numbers.loss ?? numbers[watched[0]], outputs: numbers, ms };
        }
      } catch (/** @type {any} */ error) {
        // What an iterator gave cannot be had again. Lost twice at one step: the step itself does it.
        if (!goesOn || error.code != 'device-lost' || data?.next || lostAt == done()) throw error;
        lostAt = done();
        await model.recover();
        source = openSource(entry, data, steps != null);
        batches = await take(done());
        continue;
      }
      if (report) yield report;
      if (next.status == 'rejected') throw next.reason;
      batches = next.value;
    }
  }

  // -- the model: every entry is a method

  /** @type {any} */
  const model = {
    plan,
    /** Steps per training entry, batches taken, the shuffle's seed. */
    progress: none(),
    /** Training steps that make a NaN are undone and rejected; false lets them pass. */
    checkFinite: true,

    /**
     * Runs an entry once: typed arrays (or numbers) in, typed arrays out.
     * @param {string} key @param {any} [inputs] @returns {Promise<Record<string, Values>>}
     */
    async call(key, inputs = {}) {
      const { outputs, training } = entryOf(key),
        batch = checkBatch(key, inputs);
      return locked(async () => {
        const [result] = await run(key, [batch], keys(outputs));
        if (training) model.progress.steps[key] = stepsOf(key) + 1;
        return result;
      });
    },
    fit,
    /** All parameters by name, as copies. */
    params: async () => valuesIn((await readAll(tensor => tensor.role == 'param')).words),
    /** All state by name, optimizer moments included, as copies. */
    state: async () => valuesIn((await readAll(tensor => tensor.role == 'state')).words),
    /**
     * Writes parameters (or state) by name; `strict`: all parameters, and no unknown name.
     * @param {Record<string, any>} given @param {{strict?: boolean}} [options]
     */
    async loadParams(given, { strict = true } = {}) {
      const missing = keys(lasting).find(key => strict && lasting[key].role == 'param' && !(key in given));
      if (missing) fail('weights', missing, 'is missing');
      await writeAll(wordsOf(chosen(given, (_, key) => strict || key in lasting), lasting, 'what was given'));
    },
    /**
     * Back to the start: first values, no steps made. A seed draws other first values; `own`: as the bundle was built.
     * @param {number} [seed] @param {{own?: boolean}} [options]
     */
    reset: async (seed, { own } = {}) => writeAll(await (own ? start(null, {}) : start(seed)), none()),
    /**
     * A safetensors file, the same as Python's; with `optimizer` it can be continued to the bit.
     * @param {{optimizer?: boolean}} [options]
     */
    async save({ optimizer = true } = {}) {
      const { words, progress } = await readAll((_, key) => optimizer || !isOptimizers(key)),
        { steps, position, seed } = progress,
        facts = { format: 'wgcc-checkpoint', model: plan.model.name };
      return writeTensors(
        valuesIn(words),
        tensors,
        optimizer || !keys(plan.optimizer ?? {})[0]
          ? { data: { position, seed }, ...facts, steps: fromEntries(pairsOf(steps).sort()), version: 1 }
          : { ...facts, version: 1 },
      );
    },
    /** Puts back what `save` (here or in Python) wrote. @param {ArrayBuffer | ArrayBufferView} bytes */
    async restore(bytes) {
      const { tensors: given, progress } = readTensors(bytes, 'checkpoint'),
        words = wordsOf(given, lasting, 'the checkpoint'),
        missing = keys(lasting).find(key => !words[key] && !isOptimizers(key));
      if (missing) fail('weights', missing, 'is not in the checkpoint');
      await writeAll({ ...(await start()), ...words }, progress);
    },
    /** Keeps a checkpoint in the browser (IndexedDB); whether the browser promised not to evict it. @param {string} [key] */
    async store(key = plan.model.name) {
      const bytes = await model.save();
      await stored('readwrite', checkpoints => checkpoints.put(bytes, key));
      return (await globalThis.navigator?.storage?.persist?.()) ?? false;
    },
    /** Restores what `store` kept; false when there is nothing. @param {string} [key] */
    async recall(key = plan.model.name) {
      const bytes = await stored('readonly', checkpoints => checkpoints.get(key));
      if (bytes) await model.restore(bytes);
      return !!bytes;
    },
    /** Remembers everything, for `recover`. `fit` does it now and then. */
    async snapshot() {
      remembered = await readAll(() => true);
    },
    /**
     * After a device loss: a new device, everything as at the last snapshot.
     * @param {any} [choice] a new one, where the first was not the browser's
     */
    async recover(choice) {
      await locked(async () => lost && build(choice ?? (options.device?.requestAdapter && options.device)));
      await writeAll({ ...constants, ...remembered.words }, remembered.progress);
    },
    /** Median milliseconds of each kernel of an entry, by GPU timestamps where the adapter has them. */
    profile: async (key = 'train', repeat = 5) => (entryOf(key), (await loadMore()).profile(model, inside(key), repeat)),
    /** Frees the GPU memory. */
    dispose() {
      isClosed = true;
      giveUp?.(closed());
      close();
    },
  };
  // A method `then` would make the model a promise to whoever awaits it.
  for (const key in entries)
    if (key != 'then' && !(key in model)) model[key] = (/** @type {any} */ inputs) => model.call(key, inputs);
  try {
    await build(options.device);
    signal?.throwIfAborted();
    await model.reset();
    if (options.verify) await (await loadMore()).verify(model);
  } catch (error) {
    model.dispose();
    throw error;
  }
  return model;
}
