// Loaded when something is wrong, to say what: a bundle that is not as the compiler sealed it is checked here before the
// first GPU call (the twin of plan.schema.json, validate.py and wgsl_guard.py in Python, with the same error codes; a
// sound bundle that somebody changed by hand runs), and what a caller passed or an adapter lacks is named.

import { bytesOf, convert, fail, isFloat, isLasting, listOf, ownOf, product } from '../wgcc.js';

/** @import { Binding, Entry, Kernel, Plan, Tensor, Tensors } from '../wgcc.js' */

const { hasOwn, keys, values: valuesOf } = Object,
  { isInteger, isFinite } = Number,
  { isArray } = Array,
  { max } = Math;

// ---- the plan: its form, and what a form cannot say

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
/**
 * Roles of buffers that tensors may be stored in: looking for a NaN clears others. Inputs of one element are stored
 * among the state's.
 * @type {Record<string, RegExp>}
 */
const STORED_IN = { param: /params/, state: /state/, constant: /constant/, input: /input|state/, output: /^/ };
/** @type {Form} */
const isKept = ({ role, buffer }) => STORED_IN[role].test(root.buffers[buffer].role);
/** Lies within its buffer. @type {Form} */
const fits = place => place.offset + (place.size ?? bytesOf(place)) <= root.buffers[place.buffer].bytes;
/** Names and files are given once. @type {(items: {name: string, file?: string}[], field: string) => boolean} */
const unique = (items, field) =>
  items.every(
    (one, i) =>
      items.findIndex(item => item.name == one.name || (item.file && item.file == one.file)) == i ||
      refuse(`${field}[${i}]`, one.name),
  );
/** These tensors each own their memory. @param {string[]} names */
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
  PATH = /^(?!(__proto__|constructor|prototype)$)[A-Za-z_][\w./]{0,510}$/,
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
      other = ownOf(tensors, init?.of ?? '');
    return (
      init?.kind != 'copy' ||
      (other && isLasting(other) && other.init?.kind != 'copy' && `${other.shape}` == `${shape}`) ||
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
const DISPATCHES = list(
  all(
    record(
      { kernel: known('kernels'), grid: GRID, bindings: list(all(BINDING, fits), 64, 1) },
      { at: TEXT, label: TEXT, flops: COUNT },
    ),
    ({ kernel, bindings }, field) => usable(kernel, bindings, field),
  ),
);
/** A word that is set when something is not finite. @type {Form} */
const IS_FLAG = key => {
  const { dtype, role, shape } = root.tensors[key];
  return dtype + role == 'u32output' && product(shape) == 1;
};
const ENTRY = record(
  { inputs: PORTS, outputs: PORTS, writes: list(LASTING), training: FLAG, dispatches: DISPATCHES },
  {
    guard: record({ flag: all(known('tensors'), IS_FLAG), dispatches: DISPATCHES }),
    doc: /^[^]{0,65536}$/,
    ranges: table((value, field) =>
      check(isArray(value) ? list(WORD, 2, 2) : record({ low: WORD, high: WORD }, { ignore: WORD }), value, field),
    ),
  },
);
/**
 * Inputs are inputs, outputs are outputs, and they own their memory: only an output may be what the entry writes. Ranges
 * are those of inputs.
 * @param {Entry} entry @param {string} field
 */
const ported = ({ inputs, outputs, ranges, writes, guard }, field) => {
  for (const port in inputs)
    root.tensors[inputs[port]].role == 'input' || refuse(`${field}.inputs.${port}`, inputs[port]);
  for (const port in outputs)
    root.tensors[outputs[port]].role == 'output' || refuse(`${field}.outputs.${port}`, outputs[port]);
  for (const port in ranges) {
    const { 0: a, 1: b, low = a, high = b } = /** @type {any} */ (ranges[port]);
    (hasOwn(inputs, port) && !isFloat(root.tensors[inputs[port]]) && low <= high) ||
      refuse(`${field}.ranges.${port}`, ranges[port]);
  }
  const lasting = keys(root.tensors).filter(key => !/put/.test(root.tensors[key].role)),
    written = new Set(writes),
    others = lasting.filter(key => !written.has(key)),
    ports = [...valuesOf(inputs), ...(guard ? [guard.flag] : [])];
  return disjoint([...lasting, ...ports]) && disjoint([...others, ...ports, ...valuesOf(outputs)]);
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
    tensors: all(table(all(TENSOR, fits, isKept), 1e4, PATH), copied),
    kernels: all(list(KERNEL), unique),
    entries: all(
      table(all(ENTRY, ported)),
      entries =>
        valuesOf(entries).reduce((sum, { dispatches, guard }) => sum + dispatches.length + (guard?.dispatches.length ?? 0), 0) <= 1e4,
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
    weights: record({ sha256: HASH }, { seed: [0, 2 ** 32 - 1] }),
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
    digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(source)));
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

/** All of a bundle but its weights. @param {any} plan @param {Record<string, string>} kernels */
export async function checkBundle(plan, kernels) {
  checkPlan(plan);
  // On pages from http, browsers have neither digests nor WebGPU.
  if (!crypto.subtle) checkAdapter(plan);
  await Promise.all(plan.kernels.map((/** @type {Kernel} */ kernel) => checkKernel(kernel, kernels)));
}

// ---- the machine

/** @param {Plan} plan */
export const checkMemory = ({ memory }) =>
  fail('memory', 'maxBytes', `is below the ${memory.peak} bytes that the bundle takes: load({maxBytes}) raises it`);

/** @param {Plan} plan @param {any} [gpu] @param {any} [adapter] what it gave */
export function checkAdapter({ requires }, gpu, adapter) {
  if (!gpu)
    fail('no-webgpu', '', 'use a current browser, over https or localhost; in Node: load({device: create([])}) of npm webgpu');
  if (!adapter) fail('no-adapter', '', 'WebGPU found none: update the graphics driver');
  const { features, limits } = adapter;
  for (const key of requires.features)
    features.has(key) || fail('feature', key, 'is not in this adapter; shader-f16: build with `precision = f32`');
  for (const key in requires.limits)
    limits[key] >= requires.limits[key] || fail('limit', key, `is ${limits[key]} here, not ${requires.limits[key]}`);
}

/** @param {Plan} plan @param {any} profile @param {object} profiles */
export const checkProfile = (plan, profile, profiles) =>
  hasOwn(profiles, profile)
    ? fail('feature', profile, 'needs larger subgroups')
    : fail('name', `${profile}`, `is no profile; there are: ${keys(profiles)}`);

// ---- what callers pass

/**
 * Why a value is not a tensor's: its type, its shape, or one of its numbers.
 * @param {any} value @param {Tensor} tensor @param {string} field
 * @param {{allowed?: any, code?: string, rows?: boolean}} [how] `code`: of a wrong shape; `rows`: of any number
 * @returns {any}
 */
export function explain(value, tensor, field, { allowed, code = 'shape', rows } = {}) {
  const { dtype, shape } = tensor,
    list = listOf(value, tensor) ?? fail('dtype', field, `is no array of ${dtype}`);
  if (!rows && (list.length != product(shape) || `${value.shape ?? shape}` != `${shape}`))
    fail(code, field, `has shape [${value.shape ?? list.length}], not [${shape}]`);
  for (let i = 0; i < list.length; i++) {
    if (convert([list[i]], dtype, allowed)) continue;
    const x = Number(list[i]),
      is = `holds ${x} at ${i}, `;
    if (isFloat(tensor)) fail('not-finite', field, `${is}no finite ${dtype}`);
    if (!isInteger(x)) fail('dtype', field, `${is}no ${dtype}`);
    const { 0: least, 1: most, low = least, high = most } = allowed ?? [];
    fail('range', field, `${is}not within ${low == null ? dtype : `${low} to ${high}`}`);
  }
}

/** Every input there, and no other. @param {Plan} plan @param {string} key @param {any} batch */
function checkNames({ entries }, key, batch) {
  if (!hasOwn(entries, key)) fail('name', key, `is no entry; there are: ${keys(entries)}`);
  const { inputs } = entries[key];
  if (Object(batch) !== batch) fail('data', key, 'takes an object of arrays');
  for (const port of keys(batch))
    hasOwn(inputs, port) || fail('name', port, `is no input of ${key}; there are: ${keys(inputs)}`);
  /** @type {any} */
  const inherited = Object.prototype;
  for (const port in inputs)
    (batch[port] ?? inherited[port]) !== inherited[port] || fail('name', port, `is missing: ${key} needs it`);
}

/** The inputs of a call. @param {Plan} plan @param {string} key @param {any} batch */
export function checkInputs(plan, key, batch) {
  checkNames(plan, key, batch);
  const { inputs, ranges } = plan.entries[key];
  for (const port in inputs)
    explain(batch[port], plan.tensors[inputs[port]], `${key}.${port}`, { allowed: ownOf(ranges, port) });
  fail('data', key, 'does not take these inputs');
}

/** Whole data sets. @param {Plan} plan @param {string} key @param {any} data @param {boolean} isEnded by a number of steps */
export function checkRows(plan, key, data, isEnded) {
  if (!isEnded) fail('data', 'steps', 'is missing: arrays have no end');
  checkNames(plan, key, data);
  const { inputs, ranges } = plan.entries[key],
    /** @type {{port: string, size?: number, rows: number}[]} */ found = [];
  for (const port in inputs) {
    const tensor = plan.tensors[inputs[port]],
      field = `${key}.${port}`,
      [size, ...row] = tensor.shape;
    explain(data[port], tensor, field, { allowed: ownOf(ranges, port), rows: true });
    const { length } = /** @type {any} */ (listOf(data[port], tensor)),
      rows = length / product(row);
    if (rows % 1 || (rows != 1 && !size))
      fail('shape', field, `has ${length} numbers; the model takes [${tensor.shape}], or more rows of that`);
    found.push({ port, size, rows });
  }
  const { size: batch = 0, rows: count = 1 } = found.findLast(({ size, rows }) => size && rows != size) ?? {};
  for (const { port, size, rows } of found)
    if (rows != (size == batch ? count : (size ?? 1))) fail('shape', port, `has ${rows} rows, another input ${count}`);
  fail('shape', key, `has ${count} rows, fewer than the batch of ${batch}`);
}

/** @param {Plan} plan @param {string} entry @param {Record<string, any>} numbers */
export function checkFit({ entries }, entry, { steps = 1, every, seed }) {
  if (!hasOwn(entries, entry)) fail('name', entry, `is no entry; there are: ${keys(entries)}`);
  for (const [key, value] of Object.entries({ steps, every }))
    (value > 0 && isInteger(value)) || fail('range', key, `is a whole number above 0, not ${value}`);
  if (seed >>> 0 !== seed) fail('range', 'seed', `is a whole number from 0 to 4294967295, not ${seed}`);
  fail('name', entry, 'does not train: no parameter changes by a gradient, or no loss to watch is returned');
}
