// Checks a bundle completely before the first GPU call: the plan's form, then what a form cannot say (indices,
// ranges, overlaps, aliases, totals), and the kernels' hashes. The twin of plan.schema.json and validate.py: same
// error codes, same fields.

/** @import { Bundle, Options, Plan, Tensor, Tensors, Entry, Binding, Range } from './wgcc.js' */

/** A problem a caller can act on: `code` is one stable word, `field` the place in the plan or the argument. */
export class WgccError extends Error {
  /** @param {string} code @param {string} message @param {string} [field] */
  constructor(code, message, field = '') {
    super(`${code}: ${message}`);
    this.name = 'WgccError';
    this.code = code;
    this.field = field;
  }
}

/** @type {(code: string, message: string, field?: string) => never} */
export const fail = (code, message, field) => {
  throw new WgccError(code, message, field);
};
const { hasOwn, keys, entries, fromEntries } = Object;
/** @param {string} text */
export const encode = text => new TextEncoder().encode(text);
/** @param {string} name @param {object} all */
export const unknown = (name, all) => `\`${name}\`; there are: ${keys(all).slice(0, 12).join(', ')}`;
/** @param {number[]} shape */
export const product = shape => shape.reduce((a, b) => a * b, 1);
/** @param {Tensor} tensor */
export const bytesOf = tensor => 4 * product(tensor.shape);
/** @param {Tensor} tensor */
export const isFloat = tensor => tensor.dtype[0] == 'f';
/** @param {Tensor} tensor */
export const isLasting = tensor => /param|state/.test(tensor?.role);

/** WebGPU's default limits, which every browser grants. @type {Record<string, number>} */
export const LIMITS = {
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

/** @param {any} good @param {string} field @param {string} why @param {string} [code] @returns {asserts good} */
function need(good, field, why, code = 'plan') {
  if (!good) fail(code, `plan.json: \`${field}\` ${why}`, field);
}

/**
 * A text's pattern, a whole number's [low, high, step], or a function.
 * @typedef {RegExp | number[] | ((value: any, field: string) => void)} Form
 */
/** @param {Form} form @param {any} value @param {string} field */
function match(form, value, field) {
  if (typeof form == 'function') form(value, field);
  else if (form instanceof RegExp) need(typeof value == 'string' && form.test(value), field, `is not like ${form}`);
  else
    need(
      Number.isInteger(value) && value >= form[0] && value <= form[1] && value % (form[2] ?? 1) == 0,
      field,
      `is no whole number of ${form}`,
    );
}
/** @param {Form} form @param {number} [most] @param {number} [least] @returns {Form} */
const list =
  (form, most = 1e4, least = 0) =>
  (value, field) => {
    need(
      Array.isArray(value) && value.length >= least && value.length <= most,
      field,
      `is no list of ${least} to ${most}`,
    );
    value.forEach((/** @type {any} */ item, /** @type {number} */ i) => match(form, item, `${field}[${i}]`));
  };
/** @param {string} field @param {string} key */
const inside = (field, key) => (field ? `${field}.${key}` : key);
/** @param {Form} form @param {number} [most] @param {RegExp} [names] @returns {Form} */
const table =
  (form, most = 256, names = NAME) =>
  (value, field) => {
    need(
      value && typeof value == 'object' && !Array.isArray(value) && keys(value).length <= most,
      field,
      `is no object, or has more than ${most} keys`,
    );
    for (const key of keys(value)) (match(names, key, inside(field, key)), match(form, value[key], inside(field, key)));
  };
/**
 * Required keys, optional keys (`*`: any).
 * @param {Record<string, Form>} needed @param {Record<string, Form>} [more] @returns {Form}
 */
const record =
  (needed, more = {}) =>
  (value, field) => {
    const forms = Object.assign(Object.create(null), needed, more);
    match(
      table(() => {}, 1e4, /^/),
      value,
      field,
    );
    for (const key in needed) need(hasOwn(value, key), field, `lacks \`${key}\``);
    for (const key of keys(value)) {
      need(forms[key] ?? forms['*'], inside(field, key), 'is not a key of plan version 1');
      match(forms[key] ?? forms['*'], value[key], inside(field, key));
    }
  };

const NAME = /^(?!(__proto__|constructor|prototype)$)[A-Za-z_]\w{0,126}$/,
  PATH = /^(?!(__proto__|constructor|prototype)$)[A-Za-z_][\w./]{0,254}$/;
const HASH = /^[0-9a-f]{64}$/,
  TEXT = /^[^]{0,256}$/,
  INDEX = [0, 9999],
  COUNT = [0, 2 ** 53 - 1],
  WORD = [-(2 ** 31), 2 ** 32 - 1],
  SIZE = [4, 2 ** 40, 4];
const PORTS = table(PATH),
  GRID = list([1, 65535], 3, 3),
  RANGE = { low: WORD, high: WORD };
/** @type {Form} */
const NUMBER = (value, field) => need(Number.isFinite(value), field, 'is no number');
/** @type {Form} */
const FLAG = (value, field) => need(value === !!value, field, 'is neither true nor false');
const PLAN = /** @type {Function} */ (
  record(
    {
      format: /./,
      version: [1, 1],
      generator: /^[^]{0,64}$/,
      model: record({ name: NAME, source: /^[^/\\\x00-\x1f]{1,128}$/, sha256: HASH }, { vocab: /^[^]{1,65536}$/ }),
      requires: record({
        features: list(/^[a-z][a-z0-9-]{0,63}$/, 32),
        limits: record({}, fromEntries(keys(LIMITS).map(key => [key, COUNT]))),
      }),
      buffers: list(record({ name: PATH, bytes: SIZE, role: /^(params|state|grads|temp|input|output|constant)$/ })),
      tensors: table(
        record(
          {
            dtype: /^(f32|f16|i32|u32|u8|bool)$/,
            shape: list([1, 2 ** 31 - 1], 16),
            buffer: INDEX,
            offset: [0, 2 ** 40, 4],
            role: /^(param|state|constant|input|output)$/,
          },
          {
            trainable: FLAG,
            init: record(
              {
                kind: /^(value|zeros|ones|external|(trunc_|kaiming_)?normal|(kaiming_|xavier_)?uniform|orthogonal|copy)$/,
              },
              { of: PATH, args: table(NUMBER, 8), values: list(NUMBER, 1e9) },
            ),
          },
        ),
        1e4,
        PATH,
      ),
      kernels: list(
        record({
          name: NAME,
          file: /^\w[\w.-]{0,58}\.wgsl$/,
          sha256: HASH,
          entry: NAME,
          workgroup: list([1, 1024], 3, 3),
          access: list(/^read(_write)?$/, 64, 1),
        }),
      ),
      entries: table(
        record(
          {
            inputs: PORTS,
            outputs: PORTS,
            writes: list(PATH),
            training: FLAG,
            dispatches: list(
              record(
                {
                  kernel: INDEX,
                  grid: GRID,
                  bindings: list(record({ buffer: INDEX, offset: [0, 2 ** 40, 256], size: SIZE }), 64, 1),
                },
                { at: TEXT, label: TEXT, flops: COUNT },
              ),
            ),
          },
          {
            doc: /^[^]{0,65536}$/,
            ranges: table((value, field) =>
              match(Array.isArray(value) ? list(WORD, 2, 2) : record(RANGE, { ignore: WORD }), value, field),
            ),
          },
        ),
      ),
      memory: record(
        { peak: COUNT },
        { params: COUNT, state: COUNT, grads: COUNT, temps: COUNT, constants: COUNT, io: COUNT },
      ),
    },
    {
      profiles: table(table(list(record({ dispatch: INDEX, kernel: INDEX, grid: GRID }))), 16),
      optimizer: table(record({ kind: NAME, step: PATH, entry: list(NAME) }, { '*': () => {} }), 64),
      selftest: record({
        seed: [0, 2 ** 32 - 1],
        entries: table(
          record({
            inputs: table(record({ kind: /^(uniform|integers)$/, low: NUMBER, high: NUMBER })),
            steps: [1, 1000],
            outputs: list(table(record({ sum: NUMBER, abs: NUMBER, first: list(NUMBER, 8) })), 1000),
            tolerance: NUMBER,
          }),
        ),
      }),
    },
  )
);

/** What a device for this plan is asked for: the defaults, raised where the plan says so. @param {Plan} plan */
const limitsOf = plan =>
  fromEntries(
    entries(LIMITS).map(([key, value]) => [key, key < 'min' ? Math.max(value, plan.requires.limits[key] ?? 0) : value]),
  );
/** @param {any} range @returns {Range} */
export const rangeOf = range => (Array.isArray(range) ? { low: range[0], high: range[1] } : range);

/**
 * The checked plan of a bundle whose kernels are what the plan was written with.
 * @param {Bundle} bundle @param {Options} options
 */
export async function checkBundle({ plan: given, kernels }, { profile = 'gpu', signal, maxBytes = 2 ** 33 }) {
  const plan = checkPlan(given),
    { peak } = plan.memory,
    profiles = { gpu: 1, ...plan.profiles };
  if (peak > maxBytes) fail('memory', `the bundle needs ${peak} bytes on the GPU; load({maxBytes: ${peak}}) allows it`);
  if (!hasOwn(profiles, profile)) fail('name', `the bundle has no profile ${unknown(profile, profiles)}`, profile);
  for (const { file, sha256 } of plan.kernels) {
    const text = kernels[file] ?? fail('bundle', `the bundle lacks kernels/${file}`, file),
      digest = new Uint8Array(await crypto.subtle.digest('SHA-256', encode(text)));
    if (Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('') != sha256)
      fail('bundle', `kernels/${file} was changed after the bundle was built: build the model again`, file);
    guardKernel(text, file);
  }
  signal?.throwIfAborted();
  return plan;
}

/**
 * The plan, checked: a `WgccError` with code `plan`, `limit` or `version` names the first field that is wrong.
 * @param {any} plan @returns {Plan}
 */
export function checkPlan(plan) {
  need(plan?.format == 'wgcc-bundle', 'format', 'is not wgcc-bundle');
  if (Number.isInteger(plan.version) && plan.version != 1) {
    fail(
      'version',
      `the plan has version ${plan.version}, written by ${plan.generator}; this runtime reads version 1: use the files of that wgcc, or build the model again`,
      'version',
    );
  }
  PLAN(plan, '');
  const limits = limitsOf(plan);
  checkMemory(plan, limits);
  checkKernels(plan, limits);
  let dispatches = 0;
  for (const key in plan.entries) {
    checkEntry(plan, plan.entries[key], `entries.${key}`, limits);
    dispatches += plan.entries[key].dispatches.length;
  }
  need(dispatches <= 1e4, 'entries', 'has more than 10000 dispatches in all');
  for (const profile in plan.profiles) checkProfile(plan, plan.profiles[profile], `profiles.${profile}`);
  for (const key in plan.optimizer) {
    const { step, entry } = plan.optimizer[key];
    need(hasOwn(plan.tensors, step) && isLasting(plan.tensors[step]), `optimizer.${key}.step`, 'names no state');
    entry.forEach((/** @type {string} */ item, /** @type {number} */ i) =>
      need(hasOwn(plan.entries, item), `optimizer.${key}.entry[${i}]`, 'names no entry'),
    );
  }
  for (const key in plan.selftest?.entries) checkSelftest(plan, plan.selftest.entries[key], key);
  return plan;
}

/** @param {string} field @param {string} limit @param {number} value @param {Record<string, number>} limits */
const within = (field, limit, value, limits) =>
  need(value <= limits[limit], field, `needs ${limit} = ${value}, beyond ${limits[limit]}`, 'limit');

/** @param {string} field @param {string[]} all */
const unique = (field, all) =>
  all.forEach((item, i) => need(all.indexOf(item) == i, `${field}[${i}]`, `repeats the name ${item}`));

/** @param {Plan} plan @param {Record<string, number>} limits */
function checkMemory({ buffers, tensors, memory, entries: all }, limits) {
  unique(
    'buffers',
    buffers.map(buffer => buffer.name),
  );
  buffers.forEach((buffer, i) => within(`buffers[${i}].bytes`, 'maxBufferSize', buffer.bytes, limits));
  for (const key in tensors) {
    const tensor = tensors[key],
      { buffer, offset, init } = tensor,
      field = `tensors.${key}`,
      room = buffers[buffer]?.bytes;
    need(room, `${field}.buffer`, 'names no buffer');
    need(offset + bytesOf(tensor) <= room, field, `ends beyond the ${room} bytes of its buffer`);
    const other = init?.kind == 'copy' && (hasOwn(tensors, init.of ?? '') ? tensors[init.of ?? ''] : tensor);
    need(
      !other || (isLasting(other) && other.init?.kind != 'copy' && `${other.shape}` == `${tensor.shape}`),
      `${field}.init`,
      'copies no tensor of the same shape',
    );
  }
  const lasting = keys(tensors).filter(key => isLasting(tensors[key]) || tensors[key].role == 'constant');
  checkDisjoint(tensors, lasting);
  for (const key in all) {
    for (const side of /** @type {const} */ (['inputs', 'outputs'])) {
      for (const port in all[key][side])
        need(hasOwn(tensors, all[key][side][port]), `entries.${key}.${side}.${port}`, 'names no tensor');
    }
    checkDisjoint(tensors, [...lasting, ...Object.values(all[key].inputs)]);
  }
  const roles = {
    peak: /./,
    params: /params/,
    state: /state/,
    grads: /grads/,
    temps: /temp/,
    constants: /constant/,
    io: /put/,
  };
  for (const [key, role] of entries(roles)) {
    const found = buffers.reduce((sum, buffer) => sum + (role.test(buffer.role) ? buffer.bytes : 0), 0);
    need((memory[key] ?? found) == found, `memory.${key}`, `is not the ${found} bytes of the buffers`);
  }
}

/**
 * Lasting tensors and an entry's inputs each own their memory. Outputs may share it.
 * @param {Tensors} tensors @param {string[]} names
 */
function checkDisjoint(tensors, names) {
  const sorted = [...new Set(names)].sort(
    (a, b) => tensors[a].buffer - tensors[b].buffer || tensors[a].offset - tensors[b].offset,
  );
  sorted.slice(1).forEach((key, i) => {
    const left = tensors[sorted[i]],
      right = tensors[key],
      shared =
        left.role + right.role == 'constantconstant' && left.offset == right.offset && bytesOf(left) == bytesOf(right);
    need(
      shared || left.buffer != right.buffer || left.offset + bytesOf(left) <= right.offset,
      `tensors.${key}`,
      `overlaps \`${sorted[i]}\``,
    );
  });
}

/** @param {Plan} plan @param {Record<string, number>} limits */
function checkKernels({ kernels }, limits) {
  unique(
    'kernels',
    kernels.map(kernel => kernel.name),
  );
  unique(
    'kernels',
    kernels.map(kernel => kernel.file),
  );
  kernels.forEach(({ workgroup, access }, i) => {
    workgroup.forEach((size, axis) =>
      within(`kernels[${i}].workgroup`, `maxComputeWorkgroupSize${'XYZ'[axis]}`, size, limits),
    );
    within(`kernels[${i}].workgroup`, 'maxComputeInvocationsPerWorkgroup', product(workgroup), limits);
    within(`kernels[${i}].access`, 'maxStorageBuffersPerShaderStage', access.length, limits);
  });
}

/** @param {Plan} plan @param {Entry} entry @param {string} field @param {Record<string, number>} limits */
function checkEntry(plan, entry, field, limits) {
  const { tensors, buffers } = plan,
    { inputs, ranges } = entry;
  for (const key in inputs) need(tensors[inputs[key]].role == 'input', `${field}.inputs.${key}`, 'names no input');
  entry.writes.forEach((key, i) =>
    need(hasOwn(tensors, key) && isLasting(tensors[key]), `${field}.writes[${i}]`, 'names no parameter or state'),
  );
  for (const key in ranges) {
    const { low, high } = rangeOf(ranges[key]);
    need(
      hasOwn(inputs, key) && !isFloat(tensors[inputs[key]]) && low <= high,
      `${field}.ranges.${key}`,
      'is empty, or of no integer input of the entry',
    );
  }
  entry.dispatches.forEach(({ kernel, bindings }, i) => {
    bindings.forEach(({ buffer, offset, size }, j) => {
      const room = buffers[buffer]?.bytes,
        place = `${field}.dispatches[${i}].bindings[${j}]`;
      need(room, `${place}.buffer`, 'names no buffer');
      need(offset + size <= room, place, `ends beyond the ${room} bytes of its buffer`);
      within(`${place}.size`, 'maxStorageBufferBindingSize', size, limits);
    });
    checkUse(plan, kernel, bindings, `${field}.dispatches[${i}]`);
  });
}

/** @param {Plan} plan @param {number} kernel @param {Binding[]} bindings @param {string} field */
function checkUse(plan, kernel, bindings, field) {
  const access = plan.kernels[kernel]?.access;
  need(access, `${field}.kernel`, 'names no kernel');
  need(
    access.length == bindings.length,
    `${field}.bindings`,
    `has ${bindings.length} items; the kernel takes ${access.length}`,
  );
  bindings.forEach((one, i) =>
    bindings.slice(0, i).forEach((other, j) => {
      if (one.buffer != other.buffer || access[i] + access[j] == 'readread') return;
      // WebGPU forbids one buffer as read and read_write at once, even in disjoint ranges.
      need(access[i] == access[j], `${field}.bindings[${i}]`, 'is bound to read and to write');
      need(
        one.offset >= other.offset + other.size || other.offset >= one.offset + one.size,
        `${field}.bindings[${i}]`,
        'overlaps another range that is written',
      );
    }),
  );
}

/** @param {Plan} plan @param {Record<string, {dispatch: number, kernel: number}[]>} profile @param {string} field */
function checkProfile(plan, profile, field) {
  for (const key in profile) {
    need(hasOwn(plan.entries, key), `${field}.${key}`, 'names no entry');
    profile[key].forEach(({ dispatch, kernel }, i) => {
      const old = plan.entries[key].dispatches[dispatch],
        place = `${field}.${key}[${i}]`;
      need(
        old && profile[key].findIndex(item => item.dispatch == dispatch) == i,
        `${place}.dispatch`,
        'is no dispatch, or repeated',
      );
      checkUse(plan, kernel, old.bindings, place);
    });
  }
}

/** @param {Plan} plan @param {any} test @param {string} key */
function checkSelftest(plan, test, key) {
  const field = `selftest.entries.${key}`;
  need(hasOwn(plan.entries, key), field, 'names no entry');
  const { inputs, outputs } = plan.entries[key];
  need(
    `${keys(test.inputs).sort()}` == `${keys(inputs).sort()}`,
    `${field}.inputs`,
    'does not name the inputs of the entry',
  );
  need(test.outputs.length == test.steps, `${field}.outputs`, 'has not one item per step');
  for (const port in test.inputs) {
    const { kind, low, high } = test.inputs[port];
    need(
      low <= high && (kind == 'uniform' || (Number.isInteger(low) && Number.isInteger(high))),
      `${field}.inputs.${port}`,
      'is no range to draw from',
    );
  }
  test.outputs.forEach((/** @type {any} */ all, /** @type {number} */ i) => {
    for (const port in all)
      need(hasOwn(outputs, port), `${field}.outputs[${i}].${port}`, 'names no output of the entry');
  });
}

/**
 * Refuses WGSL that would crash a shader compiler (Deno's) instead of being refused: see wgsl_guard.py.
 * @param {string} source @param {string} file
 */
function guardKernel(source, file) {
  const text = source.replace(/\/\/[^\n\v\f\r\x85\u2028\u2029]*|\/\*[^]*?\*\//g, ' '),
    parts = text.split(/[;{}]/);
  let depth = 0,
    deepest = 0;
  for (const letter of text) {
    if (/[([{]/.test(letter)) deepest = Math.max(deepest, ++depth);
    if (/[)\]}]/.test(letter)) depth--;
  }
  if (
    deepest > 256 ||
    parts.length > 1e4 ||
    text.split(/\belse\b/)[1024] ||
    parts.some(part => part.split(/[-+*/%&|^!~<>=.([]/)[1025] != null)
  )
    fail('kernel', `kernels/${file} is too deeply nested, or too long, for GPU drivers`, file);
}

// ---- files of weights

/** What a checkpoint says of itself. @param {string} [text] @param {string} [what] */
export function factsOf(text = '{"format":"wgcc-checkpoint","version":1}', what = '') {
  /** @type {any} */
  let facts;
  try {
    facts = JSON.parse(text);
  } catch {}
  const { format, version, steps = {}, data = {}, crc32 } = facts ?? {},
    { position = 0, seed = 0 } = data ?? {};
  if (
    format != 'wgcc-checkpoint' ||
    steps?.constructor != Object ||
    ![...Object.values(steps), position, seed].every(n => n >= 0 && Number.isInteger(n))
  )
    fail('weights', `${what} has unknown metadata`, what);
  if (version != 1) fail('version', `${what} has version ${version}, not 1`, what);
  return { crc32, progress: { steps, position, seed } };
}

/** @param {Uint8Array} bytes @param {number} [crc] */
export function crc32(bytes, crc = 0) {
  crc = ~crc;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}
const CRC = new Uint32Array(256).map((_, n) => {
  for (let k = 8; k--;) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});
