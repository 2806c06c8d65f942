// What training, saving and looking closer need, loaded when first used: `fit` and its data, the guard against NaN,
// checkpoints, first values drawn from a seed, storage in the browser, times per kernel. First values use only the
// arithmetic that IEEE 754 fixes, so that they are Python's to the bit.

import { bytesOf, crc32, encode, fail, isFloat, isLasting, LIMITS, product, WgccError } from './check.js';
import {
  build,
  checkBatch,
  convert,
  dispatchesOf,
  eachInput,
  entryOf,
  isScalar,
  lastingOf,
  listOf,
  locked,
  pass,
  read,
  readAll,
  readTensors,
  run,
  scoped,
  startOf,
  storage,
  submit,
  TYPES,
  wordsOf,
  writeAll,
} from './wgcc.js';

/** @import { Binding, Command, Context, Entry, FitOptions, Guard, Machine } from './wgcc.js' */
/** @import { Named, Plan, Progress, Report, Tensor, Tensors, Values, Words } from './wgcc.js' */

const { keys, values, entries, fromEntries, hasOwn } = Object;

// ---- the training loop

const SUBMIT = { ms: 40, steps: 64, bytes: 2 ** 25, dispatches: 2000 }; // what one submit aims at, and holds at most

/**
 * See `Model.fit`.
 * @param {Context} c @param {any} data @param {FitOptions} options @returns {AsyncGenerator<Report, void, void>}
 */
export async function* fit(
  c,
  data,
  { steps, every = 10, entry = 'train', seed, resume, signal, snapshot: seconds = 15 },
) {
  const { outputs, inputs, training, dispatches } = entryOf(c, entry),
    { plan } = c,
    { tensors } = plan;
  const watched = keys(outputs).filter(key => isScalar(tensors[outputs[key]])),
    done = () => c.progress.steps[entry] ?? 0;
  if (!training || !watched[0])
    fail('name', `the entry \`${entry}\` does not train (no \`minimize\`), or returns no loss to watch`, entry);
  for (const [key, value] of /** @type {const} */ ([
    ['steps', steps ?? 1],
    ['every', every],
  ])) {
    if (!(value > 0 && Number.isInteger(value)))
      fail('range', `fit: \`${key}\` is a whole number above 0, not ${value}`, key);
  }
  c.progress.seed = seed ?? c.progress.seed;
  if (!resume) c.progress.position = 0;
  const last = (steps ?? Infinity) + (resume ? 0 : done()),
    source = openSource(plan, entry, data, c.progress, steps != null);
  const size = values(inputs).reduce((sum, key) => sum + bytesOf(tensors[key]), 1),
    most = Math.min(SUBMIT.steps, SUBMIT.bytes / size, SUBMIT.dispatches / dispatches.length);
  let fitting = 1;
  const take = async (/** @type {number} */ step) => {
    /** @type {Named[]} */
    const found = [];
    for (let n = Math.min(fitting, every - (step % every), last - step), batch; n-- > 0 && (batch = await source());)
      found.push(batch);
    return found;
  };
  const count = (/** @type {number} */ n) => {
    c.progress.steps[entry] = done() + n;
    c.progress.position += n;
  };
  for (let batches = await take(done()); batches.length;) {
    signal?.throwIfAborted();
    const now = batches,
      started = performance.now();
    // The next batches are prepared while the GPU works.
    const [ran, next] = await Promise.allSettled([
      locked(c, async () => {
        const results = await run(c, entry, now, watched, count);
        count(now.length);
        return results[now.length - 1];
      }),
      take(done() + now.length),
    ]);
    if (ran.status == 'rejected') throw ran.reason;
    const step = done(),
      ms = (performance.now() - started) / now.length,
      numbers = fromEntries(watched.map(key => [key, ran.value[key][0]]));
    // Grows slowly: the first steps say little.
    fitting = Math.max(1, Math.floor(Math.min(SUBMIT.ms / ms, 4 * now.length, most)));
    if (step % every == 0 || step == last) {
      if (seconds && performance.now() - c.snapshot.at > 1e3 * seconds) await snapshot(c);
      yield { step, loss: numbers.loss ?? numbers[watched[0]], outputs: numbers, ms };
    }
    if (next.status == 'rejected') throw next.reason;
    batches = next.value;
  }
}

// ---- data

/**
 * Whole data sets: rows of the first axis, in an order that seed and epoch determine.
 * @param {Plan} plan @param {string} key @param {any} data @param {number} seed @param {number} position
 */
function fromArrays(plan, key, data, seed, position) {
  /** @type {Record<string, number>} */
  const rows = {};
  let batch = 1;
  /** @type {Named} */
  const words = eachInput(plan, key, data, (port, tensor, what, allowed) => {
    const list = listOf(data[port], tensor, what),
      [size] = tensor.shape,
      count = list.length / product(tensor.shape.slice(1));
    if (count % 1 || (count != (size ?? 1) && !size))
      fail(
        'shape',
        `${what} has ${list.length} numbers; the model takes [${tensor.shape}], or more rows of that`,
        what,
      );
    if (count != (size ?? 1)) ((rows[port] = count), (batch = size));
    return convert(list, tensor.dtype, what, allowed);
  });
  const cut = keys(rows),
    count = rows[cut[0]] ?? 1,
    perEpoch = Math.floor(count / batch);
  // One batch of labels beside a thousand rows of inputs is a mistake, not a constant.
  eachInput(plan, key, data, (port, { shape }) => {
    if (cut[0] && (shape[0] == batch ? rows[port] != count : rows[port]))
      fail('shape', `${key}: \`${port}\` has another number of rows than \`${cut[0]}\``, port);
  });
  if (!perEpoch) fail('shape', `${key}: ${count} rows are fewer than the batch of ${batch}`);
  let epoch = -1,
    /** @type {any} */ order;
  return () => {
    const start = (position % perEpoch) * batch,
      now = Math.floor(position++ / perEpoch);
    if (now != epoch) order = shuffled(seed, count, (epoch = now));
    return {
      ...words,
      ...fromEntries(
        cut.map(port => {
          const row = words[port].length / count,
            chosen = words[port].slice(0, batch * row);
          for (let i = 0; i < batch; i++)
            chosen.set(words[port].subarray(order[start + i] * row, (order[start + i] + 1) * row), i * row);
          return [port, chosen];
        }),
      ),
    };
  };
}

/** @param {number} seed @param {number} count @param {number} epoch */
export function shuffled(seed, count, epoch) {
  const order = randomWords(seed, 'shuffle', count, epoch);
  // Keys and places as one number sort fastest, while they fit into its 53 bits.
  return count > 2 ** 21
    ? order.map((_, i) => i).sort((a, b) => order[a] - order[b] || a - b)
    : Float64Array.from(order, (key, i) => key * count + i)
        .sort()
        .map(x => x % count);
}

/**
 * Batches from arrays, from a function of the step, or from any iterable (started over at its end if it can be).
 * @param {Plan} plan @param {string} key @param {any} data @param {Progress} progress @param {boolean} cycle
 * @returns {() => any}
 */
function openSource(plan, key, data, { steps, seed, position }, cycle) {
  let step = steps[key] ?? 0,
    skip = position;
  const check = (/** @type {any} */ batch) => batch && checkBatch(plan, key, batch);
  if (typeof data == 'function') return async () => check(await data(step++));
  const start = () => (data?.[Symbol.asyncIterator] ?? data?.[Symbol.iterator])?.call(data);
  let iterator = start();
  if (!iterator)
    return cycle
      ? fromArrays(plan, key, data, seed, step)
      : fail('data', 'fit needs `steps`: arrays have no end', 'steps');
  const again = cycle && iterator != data;
  return async () => {
    for (;;) {
      let item = await iterator.next();
      if (item.done && again) item = await (iterator = start()).next();
      if (item.done && skip > 0)
        fail('data', `the data ended before batch ${position}, where the training is to go on`);
      if (item.done || skip-- <= 0) return check(item.value);
    }
  };
}

// ---- the guard: keeps good parameters good

const SLOTS = [0, 1, 2, 3, 4, 5, 6]; // as many ranges as fit beside the flag: an optimizer's tensors take one dispatch
/**
 * Sets flag when a word of a range, from its FIRST on, is NaN or infinite. Tests bits, as compilers may assume that
 * NaN does not occur. The twin of finite.wgsl.
 */
const FINITE = `${SLOTS.map(
  i => `override F${i}: u32;
@group(0) @binding(${i}) var<storage, read> v${i}: array<u32>;
`,
).join('')}@group(0) @binding(7) var<storage, read_write> flag: atomic<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  var bad = false;
${SLOTS.map(
  i =>
    `  for (var i = F${i} + id.x; i < arrayLength(&v${i}); i += groups.x * 64) { bad |= (v${i}[i] & 0x7f800000) == 0x7f800000; }
`,
).join('')}  if (bad) { atomicOr(&flag, 1); }
}`;

/**
 * What an entry changes: room to undo a submit, and a test of all floats that it writes. Made once.
 * @param {Machine} m @param {string} key @returns {Promise<Guard>}
 */
export async function guardOf(m, key) {
  if (hasOwn(m.guards, key)) return m.guards[key];
  const { device, plan } = m,
    entry = plan.entries[key],
    copies = await copiesOf(m, entry);
  const layout = device.createBindGroupLayout({
    entries: [...SLOTS, 7].map(binding => ({
      binding,
      visibility: 4,
      buffer: { type: binding > 6 ? 'storage' : 'read-only-storage' },
    })),
  });
  /** @param {Binding[]} runs @returns {Promise<Command>} */
  const test = async runs => {
    // A binding starts on a boundary, so what lies before a run is skipped; what is not needed starts beyond its end.
    const ranges = SLOTS.map(i => {
      const { buffer, offset, size } = runs[i] ?? runs[0],
        first = offset % 256;
      return { buffer: m.buffers[buffer], offset: offset - first, size: size + first };
    });
    const group = device.createBindGroup({
      layout,
      entries: [...ranges, { buffer: m.flag }].map((resource, binding) => ({ binding, resource })),
    });
    const pipeline = await device.createComputePipelineAsync({
      label: 'finite',
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: {
        module: device.createShaderModule({ code: FINITE }),
        entryPoint: 'main',
        constants: fromEntries(SLOTS.map(i => [`F${i}`, runs[i] ? (runs[i].offset % 256) / 4 : 2 ** 31 - 1])),
      },
    });
    return [pipeline, group, [Math.min(1024, Math.ceil(Math.max(...runs.map(run => run.size)) / 16384)), 1, 1]];
  };
  const runs = runsOf(plan, entry),
    /** @type {Binding[][]} */ parts = [];
  while (runs[0]) parts.push(runs.splice(0, 7));
  return (m.guards[key] = {
    copies,
    tests: await scoped(m, 'the test for NaN', () => Promise.all(parts.map(test))),
  });
}

/**
 * Room to undo a submit; none where the memory is full: such a model trains, it only cannot go back by itself.
 * @param {Machine} m @param {Entry} entry @returns {Promise<[GPUBuffer, GPUBuffer][]>}
 */
async function copiesOf(m, entry) {
  const watched = [...new Set(entry.writes.map(key => m.buffers[m.plan.tensors[key].buffer]))];
  return scoped(m, 'copies', () =>
    watched.map(buffer => /** @type {[GPUBuffer, GPUBuffer]} */ ([buffer, storage(m, buffer.size)])),
  ).catch(error => (error.code == 'memory' ? [] : Promise.reject(error)));
}

/** The floats an entry writes, neighbours as one range. @param {Plan} plan @param {Entry} entry */
function runsOf({ tensors, requires }, entry) {
  const written = entry.writes
    .map(key => tensors[key])
    .filter(isFloat)
    .sort((a, b) => a.buffer - b.buffer || a.offset - b.offset);
  const longest = Math.max(LIMITS.maxStorageBufferBindingSize, requires.limits.maxStorageBufferBindingSize ?? 0);
  /** @type {Binding[]} */
  const runs = [];
  for (const t of written) {
    const last = runs.at(-1),
      { buffer, offset } = t,
      size = offset + bytesOf(t) - (last?.offset ?? 0),
      gap = size - bytesOf(t) - (last?.size ?? 0);
    // Between packed tensors lies other data; between tensors on boundaries lies padding, which stays zero.
    const near = !gap || (gap < 256 && !written.some(other => other.buffer == buffer && other.offset % 256));
    if (last?.buffer == buffer && near && size + 256 <= longest) last.size = size;
    else runs.push({ buffer, offset, size: bytesOf(t) });
  }
  return runs;
}

/**
 * Goes back to before the call that made a NaN, and says where it came from.
 * @param {Context} c @param {string} key @param {Named[]} batches @param {Guard} guard @param {string} [output]
 * @param {(n: number) => void} [stands]
 */
export async function undo(c, key, batches, { copies }, output, stands) {
  const restore = () =>
    submit(c.m, 4, encoder =>
      copies.forEach(([buffer, copy]) => encoder.copyBufferToBuffer(copy, 0, buffer, 0, copy.size)),
    );
  if (copies[0] && batches.length > 1) {
    await restore();
    for (const batch of batches) (await run(c, key, [batch], output ? [output] : []), stands?.(1));
    return;
  }
  let where = '; there was no memory to undo the step: restore the last checkpoint';
  if (copies[0]) {
    await restore();
    where = `${await blame(c.m, key)}; the model is as it was before that step`;
    await restore();
  }
  fail(
    'nan',
    `${key}, step ${(c.progress.steps[key] ?? 0) + batches.length}: ${output ? `\`${output}\`` : 'a parameter or state'} is not finite${where}`,
    key,
  );
}

/**
 * Runs an entry kernel by kernel, on the inputs that are in place; names the first that writes a NaN or infinity.
 * @param {Machine} m @param {string} key
 */
async function blame(m, key) {
  const { plan } = m,
    outputs = Object.values(plan.entries[key].outputs);
  const own = Object.keys(plan.tensors).filter(id => isLasting(plan.tensors[id]) || outputs.includes(id));
  await submit(m, 4, encoder =>
    plan.buffers.forEach(({ role }, i) => {
      if (/temp|grads|output/.test(role)) encoder.clearBuffer(m.buffers[i]);
    }),
  );
  for (const id of [...keys(lastingOf(plan)), ...values(plan.entries[key].inputs)]) {
    const t = plan.tensors[id];
    if (isFloat(t) && new Float32Array(await read(m, t.buffer, t.offset, bytesOf(t))).some(x => !Number.isFinite(x)))
      return `; \`${id}\` was not finite before the step`;
  }
  for (const [i, { kernel, bindings, label, at }] of dispatchesOf(plan, key, m.profile).entries()) {
    await submit(m, 4, encoder => pass(encoder, [m.commands[key][i]]));
    for (const [j, { buffer, offset, size }] of bindings.entries()) {
      if (plan.kernels[kernel].access[j] == 'read') continue;
      // Infinities, and the NaNs that arithmetic makes; other patterns may be small negative integers.
      const place =
        new Uint32Array(await read(m, buffer, offset, size)).findIndex(word => (word & 0x7fbfffff) == 0x7f800000) * 4 +
        offset;
      if (place < offset) continue;
      const id = own.find(id => {
        const t = plan.tensors[id];
        return t.buffer == buffer && place >= t.offset && place < t.offset + bytesOf(t);
      });
      return `; it first appears in \`${id ?? label}\` (kernel ${plan.kernels[kernel].name}, ${at})`;
    }
  }
  return '';
}

// ---- checkpoints

/**
 * A safetensors file, the same as Python's; with `optimizer` it can be continued to the bit.
 * @param {Context} c @param {{optimizer?: boolean}} [options]
 */
export async function save(c, { optimizer = true } = {}) {
  const { plan } = c,
    { steps, position, seed } = structuredClone(c.progress),
    found = await readAll(c, (_, key) => optimizer || !/^opt\//.test(key));
  const facts = { format: 'wgcc-checkpoint', model: plan.model.name },
    version = 1,
    resumes = optimizer || !keys(plan.optimizer ?? {})[0];
  return writeTensors(
    found,
    plan.tensors,
    resumes
      ? { data: { position, seed }, ...facts, steps: fromEntries(entries(steps).sort()), version }
      : { ...facts, version },
  );
}

/** Puts back what `save` (here or in Python) wrote. @param {Context} c @param {ArrayBuffer | ArrayBufferView} bytes */
export async function restore(c, bytes) {
  const what = 'the checkpoint',
    { tensors, facts } = readTensors(bytes, what),
    words = wordsOf(tensors, lastingOf(c.plan), what);
  const start = await startOf(c, c.options.seed),
    missing = keys(start).find(key => !words[key] && !/^opt\//.test(key));
  if (missing) fail('weights', `${what} lacks \`${missing}\``, missing);
  await writeAll(c, { ...start, ...words }, facts.progress);
}

/**
 * Writes parameters (or state) by name; `strict`: all parameters, and no unknown name.
 * @param {Context} c @param {Record<string, any>} given @param {{strict?: boolean}} [options]
 */
export async function loadParams(c, given, { strict = true } = {}) {
  const lasting = lastingOf(c.plan),
    missing = keys(lasting).find(key => strict && lasting[key].role == 'param' && !(key in given));
  if (missing) fail('weights', `loadParams: \`${missing}\` is missing`, missing);
  await writeAll(
    c,
    wordsOf(fromEntries(entries(given).filter(([key]) => strict || key in lasting)), lasting, 'loadParams'),
  );
}

/** Remembers everything, for `recover`. `fit` does it now and then. @param {Context} c */
export async function snapshot(c) {
  const progress = structuredClone(c.progress),
    found = await readAll(c, () => true);
  c.snapshot = { words: wordsOf(found, lastingOf(c.plan), 'snapshot'), progress, at: performance.now() };
}

/**
 * After a device loss: a new device, everything as at the last snapshot.
 * @param {Context} c @param {any} [device] a new one, where the first was not the browser's
 */
export async function recover(c, device) {
  const { words, progress } = c.snapshot,
    { device: old, ...options } = c.options;
  if (c.m.isLost)
    c.m = await build(c.plan, c.bundle.kernels, {
      ...options,
      profile: c.m.profile,
      device: device ?? (old?.requestAdapter && old),
    });
  await writeAll(c, { ...c.values[0], ...words }, progress);
}

/** Of a number that `half` leaves alone. @param {number} x */
function toHalf(x) {
  const a = Math.abs(x),
    e = Math.max(-14, Math.floor(Math.log2(a))),
    m = a / 2 ** (e - 10);
  return (x < 0 || Object.is(x, -0) ? 0x8000 : 0) | (m < 1024 ? m : m + ((e + 14) << 10));
}

/**
 * The bytes that Python writes for the same values.
 * @param {Record<string, Values>} found @param {Tensors} tensors @param {object} facts
 */
function writeTensors(found, tensors, facts) {
  const kind = (/** @type {string} */ key) => tensors[key].dtype.toUpperCase(),
    rank = (/** @type {string} */ key) => keys(TYPES).indexOf(kind(key));
  const sorted = keys(found).sort(),
    order = sorted.toSorted((a, b) => rank(a) - rank(b));
  /** @type {Record<string, Uint8Array>} */
  const parts = {};
  let crc = 0,
    at = 0;
  for (const key of sorted) {
    const list = kind(key) == 'F16' ? Uint16Array.from(found[key], toHalf) : found[key];
    parts[key] = new Uint8Array(list.buffer);
    crc = crc32(parts[key], crc32(encode(key), crc));
  }
  // As Python's json.dumps spells it.
  const wgcc = JSON.stringify({ crc32: crc, ...facts }, null, 1)
    .replace(/,\n */g, ', ')
    .replace(/\n */g, '');
  const header = {
    __metadata__: { wgcc },
    ...fromEntries(
      order.map(key => [
        key,
        { dtype: kind(key), shape: tensors[key].shape, data_offsets: [at, (at += parts[key].length)] },
      ]),
    ),
  };
  const json = encode(JSON.stringify(header)),
    start = 8 + json.length + (-json.length & 7),
    bytes = new Uint8Array(start + at).fill(32, 0, start);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(start - 8), true);
  bytes.set(json, 8);
  at = start;
  for (const key of order) (bytes.set(parts[key], at), (at += parts[key].length));
  return bytes;
}

/**
 * Keeps a checkpoint in the browser (IndexedDB); whether the browser promised not to evict it.
 * @param {Context} c @param {string} [key] @returns {Promise<boolean>}
 */
export async function store(c, key = c.plan.model.name) {
  const bytes = await save(c);
  await database('readwrite', checkpoints => checkpoints.put(bytes, key));
  return (await globalThis.navigator?.storage?.persist?.()) ?? false;
}

/** Restores what `store` kept; false when there is nothing. @param {Context} c @param {string} [key] */
export async function recall(c, key = c.plan.model.name) {
  const bytes = await database('readonly', checkpoints => checkpoints.get(key));
  if (bytes) await restore(c, bytes);
  return !!bytes;
}

/**
 * One act on the store of checkpoints in IndexedDB.
 * @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} act @returns {Promise<any>}
 */
const database = (mode, act) =>
  new Promise((resolve, reject) => {
    const refuse = (/** @type {any} */ why) =>
      reject(new WgccError('storage', `the browser's storage failed: ${why?.message ?? 'there is none here'}`));
    const opening = globalThis.indexedDB?.open('wgcc', 1);
    if (!opening) return refuse(null);
    opening.onupgradeneeded = () => opening.result.createObjectStore('checkpoints');
    opening.onerror = () => refuse(opening.error);
    opening.onsuccess = () => {
      const transaction = opening.result.transaction('checkpoints', mode),
        request = act(transaction.objectStore('checkpoints'));
      transaction.oncomplete = () => {
        opening.result.close();
        resolve(request.result);
      };
      transaction.onabort = () => {
        opening.result.close();
        refuse(transaction.error);
      };
    };
  });

// ---- random words and first values

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

// Wichura's rational approximations of the normal quantile (AS 241): numerator, denominator, from the constant up.
const CENTRE = [
  [
    3.3871328727963666, 133.14166789178438, 1971.5909503065514, 13731.69376550946, 45921.95393154987, 67265.7709270087,
    33430.57558358813, 2509.0809287301227,
  ],
  [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271,
    28729.085735721943, 5226.495278852854,
  ],
];
const NEAR = [
  [
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
    0.2417807251774506, 0.022723844989269184, 7.745450142783414e-4,
  ],
  [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457,
    5.475938084995345e-4, 1.0507500716444169e-9,
  ],
];
const FAR = [
  [
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
    0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
  ],
  [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 7.868691311456133e-4, 1.8463183175100548e-5,
    1.421511758316446e-7, 2.0442631033899397e-15,
  ],
];

/** @param {number[]} coefficients @param {number} x */
const polynomial = (coefficients, x) => coefficients.reduceRight((sum, c) => sum * x + c);
/** @param {number[][]} pair @param {number} x */
const ratio = ([above, below], x) => polynomial(above, x) / polynomial(below, x);
const ATANH = Array.from({ length: 12 }, (_, k) => 1 / (2 * k + 1));

/** Library logarithms differ in their last bits. @param {number} m */
function naturalLog(m) {
  let e = 0;
  while (m < 0.5) ((m *= 2), e--);
  if (m < 0.7071067811865476) ((m *= 2), e--);
  const s = (m - 1) / (m + 1);
  return e * 0.6931471805599453 + 2 * s * polynomial(ATANH, s * s);
}

/** x with P(X < x) = p for a standard normal X. @param {number} p */
function quantile(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) return q * ratio(CENTRE, 0.180625 - Math.min(q * q, 0.180625));
  const r = Math.sqrt(-naturalLog(Math.min(p, 1 - p))),
    tail = r <= 5 ? ratio(NEAR, r - 1.6) : ratio(FAR, r - 5);
  return q < 0 ? -tail : tail;
}

/**
 * The first values of a tensor, as words.
 * @param {Tensor} tensor @param {number} seed @param {string} name @returns {Words}
 */
export function initialValues({ init = { kind: 'zeros' }, shape, dtype }, seed, name) {
  const { kind, values = [], args = {} } = init,
    size = product(shape),
    window = product(shape.slice(0, -2));
  const [fanIn, fanOut] = shape.length < 2 ? [size, size] : shape.slice(-2).map(n => window * n);
  const fan = args.fan ?? fanIn,
    total = (args.fan_in ?? fanIn) + (args.fan_out ?? fanOut),
    { low = 0, high = 1, mean = 0, std = 1, gain = 1 } = args;
  if (!(fan > 0 && total > 0)) fail('plan', `\`${name}\`: a fan of ${fan} has no initial values`, name);
  if (kind == 'value' && values.length != 1 && values.length != size)
    fail('plan', `\`${name}\`: ${values.length} initial values for ${size}`, name);
  const draw = (/** @type {(p: number) => number} */ f) =>
    Float64Array.from(randomWords(seed, name, size), w => f((w + 0.5) * 2 ** -32));
  const uniform = (/** @type {number} */ a, /** @type {number} */ b) => draw(p => a + (b - a) * p);
  const normal = (/** @type {number} */ m, /** @type {number} */ s) => draw(p => m + s * quantile(p));
  const cut = 0.022750131948179212,
    bound = 1 / Math.sqrt(fan),
    xavier = gain * Math.sqrt(6 / total);
  /** @type {Record<string, () => Float64Array>} */
  const kinds = {
    value: () => new Float64Array(size).map((_, i) => values[values.length == 1 ? 0 : i]),
    ones: () => new Float64Array(size).fill(1),
    uniform: () => uniform(low, high),
    normal: () => normal(mean, std),
    // Within two standard deviations, below which lies the probability `cut`.
    trunc_normal: () => draw(p => mean + std * Math.max(-2, Math.min(2, quantile(cut + (1 - 2 * cut) * p)))),
    kaiming_uniform: () => uniform(-bound, bound),
    kaiming_normal: () => normal(0, Math.sqrt(2 / fan)),
    xavier_uniform: () => uniform(-xavier, xavier),
    orthogonal: () => orthogonal(normal(0, 1), shape[0] ?? 1).map(x => x * gain),
  };
  return convert(kinds[kind]?.() ?? new Float64Array(size), dtype, name);
}

/** Rows (or columns, whichever are fewer) made orthonormal. @param {Float64Array} matrix @param {number} rows */
function orthogonal(matrix, rows) {
  const cols = matrix.length / rows,
    wide = rows < cols,
    n = wide ? rows : cols,
    count = wide ? cols : rows;
  const at = (/** @type {number} */ i, /** @type {number} */ j) => (wide ? j * cols + i : i * cols + j);
  // Modified Gram-Schmidt; sums run in index order.
  for (let j = 0; j < n; j++) {
    for (let k = j; k < n; k++) {
      let sum = 0;
      for (let i = 0; i < count; i++) sum += matrix[at(i, j)] * matrix[at(i, k)];
      const length = Math.sqrt(sum);
      for (let i = 0; i < count; i++) {
        if (k == j) matrix[at(i, j)] /= length;
        else matrix[at(i, k)] -= matrix[at(i, j)] * sum;
      }
    }
  }
  return matrix;
}

// ---- times

/**
 * Median milliseconds of each kernel of an entry, by GPU timestamps where the adapter has them.
 * @param {Context} c @param {string} [key] @param {number} [repeat]
 */
export async function profile(c, key = 'train', repeat = 5) {
  entryOf(c, key);
  const { m } = c,
    before = await readAll(c, () => true),
    stamped = m.device.features.has('timestamp-query'),
    commands = m.commands[key];
  const ms = await locked(c, () => (stamped ? byTimestamps : bySubmits)(m, commands, repeat));
  await loadParams(c, before);
  const rows = dispatchesOf(m.plan, key, m.profile).map(({ kernel, label = '', at = '' }, i) => ({
    kernel: m.plan.kernels[kernel].name,
    label,
    at,
    ms: ms[i],
  }));
  return { entry: key, method: stamped ? 'timestamps' : 'submits', rows };
}

/** @param {Machine} m @param {Command[]} commands @param {number} repeat */
async function byTimestamps(m, commands, repeat) {
  const count = 2 * commands.length,
    querySet = m.device.createQuerySet({ type: 'timestamp', count }),
    resolved = storage(m, 8 * count, 0x204),
    runs = /** @type {BigUint64Array[]} */ ([]);
  // The first run compiles on some adapters, so it is not counted.
  for (let i = 0; i <= repeat; i++) {
    runs.push(
      new BigUint64Array(
        await submit(m, 8 * count, (encoder, to) => {
          commands.forEach((command, j) =>
            pass(encoder, [command], {
              timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * j, endOfPassWriteIndex: 2 * j + 1 },
            }),
          );
          encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
          encoder.copyBufferToBuffer(resolved, 0, to, 0, 8 * count);
        }),
      ),
    );
  }
  resolved.destroy();
  querySet.destroy();
  return commands.map((_, j) => median(runs.slice(1).map(ticks => Number(ticks[2 * j + 1] - ticks[2 * j]) / 1e6)));
}

/**
 * One submit per kernel, less an empty submit.
 * @param {Machine} m @param {Command[]} commands @param {number} repeat
 */
async function bySubmits(m, commands, repeat) {
  const time = async (/** @type {Command[]} */ list) => {
    const all = [];
    for (let i = 0; i <= repeat; i++) {
      const start = performance.now();
      await submit(m, 4, encoder => pass(encoder, list));
      all.push(performance.now() - start);
    }
    return median(all.slice(1));
  };
  const nothing = await time([]),
    found = [];
  for (const command of commands) found.push(Math.max(0, (await time([command])) - nothing));
  return found;
}

/** @param {number[]} list */
const median = list => list.sort((a, b) => a - b)[list.length >> 1];
