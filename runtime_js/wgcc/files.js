// Weights and checkpoints, loaded when first used, and behind every training: safetensors files from elsewhere, the
// model's values in and out, checkpoints in files and in the browser. A bundle's own weights, as the compiler sealed
// them, are read without it.

import { decoded, fail, fromWords, isLasting, ownOf, product, toWords } from '../wgcc.js';

/** @import { Bundle, Inside, Named, Options, Plan, Tensor, Tensors, Values } from '../wgcc.js' */

const { assign, entries: pairsOf, fromEntries, hasOwn, keys, values: valuesOf } = Object,
  { isInteger, isSafeInteger } = Number,
  { abs, floor, max } = Math;

/** @param {string} text */
export const encode = text => new TextEncoder().encode(text);
/** Saved only to go on with training. @param {string} key */
const isOptimizers = key => /^opt\//.test(key);
/** @param {Tensors} tensors @param {(tensor: Tensor, key: string) => boolean} f @returns {Tensors} */
const chosen = (tensors, f) => fromEntries(pairsOf(tensors).filter(([key, tensor]) => f(tensor, key)));
/** @param {Inside} inside */
const lastingOf = ({ model }) => chosen(model.plan.tensors, isLasting);

// ---- safetensors

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
  const { format, version, steps = {}, data, optimizer = {} } = facts,
    { position = 0, seed = 0 } = data ?? {};
  if (
    format != 'wgcc-checkpoint' ||
    crc != (facts.crc32 ?? crc) ||
    steps?.constructor != Object ||
    optimizer?.constructor != Object ||
    ![...valuesOf(steps), position, seed].every(n => n >= 0 && isSafeInteger(n)) ||
    seed >>> 0 != seed
  )
    fail('weights', field, 'is damaged');
  if (version != 1) fail('version', field, `has version ${version}, not 1`);
  return { tensors, facts, progress: { steps, position, seed } };
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

const CRC = new Uint32Array(256).map((_, n) => {
  for (let k = 8; k--;) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});
/** @param {Uint8Array} bytes @param {number} [crc] */
export function crc32(bytes, crc = 0) {
  crc = ~crc;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// ---- where values come from

/**
 * @param {Record<string, any>} given @param {Tensors} tensors @param {string} from @returns {Promise<Named>}
 */
async function wordsOf(given, tensors, from) {
  /** @type {Named} */
  const found = Object.create(null);
  for (const [key, value] of pairsOf(given)) {
    if (!hasOwn(tensors, key)) fail('weights', key, `of ${from} is not in the model`);
    found[key] =
      toWords(value, tensors[key]) ??
      (await import('./check.js')).explain(value, tensors[key], key, { code: 'weights' });
  }
  return found;
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
 * The values that a model starts with, unless they are drawn: the bundle's own, and what was given.
 * @param {Bundle} bundle @param {Options} options
 */
export async function firstFiles(bundle, { weights: given, signal }) {
  const { tensors, memory } = bundle.plan,
    lasting = chosen(tensors, isLasting),
    fixed = chosen(tensors, tensor => tensor.role == 'constant'),
    outside = keys(lasting).filter(key => lasting[key].init?.kind == 'external');
  const load = async (/** @type {any} */ source, /** @type {Tensors} */ wanted, /** @type {string} */ from) => {
    if (!source) return {};
    const isFile = source.constructor != Object,
      file = isFile && readTensors(await bytesAt(source, 2 * memory.peak + 2 ** 24, signal), from),
      // Moments without the steps that made them would make the first steps too large or small.
      kept = file ? fromEntries(pairsOf(file.tensors).filter(([key]) => !isOptimizers(key))) : source;
    return wordsOf(kept, wanted, from);
  };
  const constants = await load(bundle.constants && decoded(bundle.constants), fixed, 'constants'),
    weights = await load(given, lasting, 'weights'),
    // Weights that replace all of the bundle's spare its file, which bundlers may have left behind.
    own = keys(lasting).every(key => ownOf(weights, key) || isOptimizers(key))
      ? {}
      : await load(bundle.weights?.(), lasting, 'weights.safetensors'),
    missing =
      keys(fixed).find(key => !ownOf(constants, key)) ??
      outside.find(key => !ownOf(weights, key) && !ownOf(own, key)) ??
      keys(lasting).find(key => given && !outside[0] && lasting[key].role == 'param' && !ownOf(weights, key));
  if (missing) fail('weights', missing, 'is in no file of weights: load({weights})');
  return { constants, weights, own };
}

/**
 * The seed to draw the values from that the bundle was built with; null where its file of weights still holds them.
 * @param {Bundle} bundle
 */
export async function builtSeed({ plan, weights }) {
  if (!plan.weights) return null;
  const { sha256, seed } = plan.weights,
    file = await bytesAt(weights?.(), Infinity),
    digest = file && new Uint8Array(await crypto.subtle.digest('SHA-256', file)),
    found = digest && Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('');
  if (found == sha256) return null;
  return (
    seed ?? fail('weights', 'weights.safetensors', 'was replaced, and the self-test is for what was built: build it again with --weights')
  );
}

// ---- the model's methods, run one at a time

/** @param {Inside} inside @param {(tensor: Tensor, key: string) => boolean} wanted @returns {Promise<Record<string, Values>>} */
async function valuesOfModel({ model, readAll }, wanted) {
  return fromEntries(pairsOf(await readAll(wanted)).map(([key, list]) => [key, fromWords(list, model.plan.tensors[key])]));
}
/** All parameters by name, as copies. @param {Inside} inside */
export const params = inside => valuesOfModel(inside, tensor => tensor.role == 'param');
/** All state by name, optimizer moments included, as copies. @param {Inside} inside */
export const state = inside => valuesOfModel(inside, tensor => tensor.role == 'state');

/**
 * Writes parameters (or state) by name; `strict`: all parameters, and no unknown name.
 * @param {Inside} inside @param {Record<string, any>} given @param {{strict?: boolean}} [options]
 */
export async function loadParams(inside, given, { strict = true } = {}) {
  const lasting = lastingOf(inside),
    missing = keys(lasting).find(key => strict && lasting[key].role == 'param' && !hasOwn(given, key));
  if (missing) fail('weights', missing, 'is missing');
  const wanted = fromEntries(pairsOf(given).filter(([key]) => strict || hasOwn(lasting, key)));
  await inside.writeAll(await wordsOf(wanted, lasting, 'what was given'));
}

/**
 * A safetensors file, the same as Python's; with `optimizer` it can be continued to the bit.
 * @param {Inside} inside @param {{optimizer?: boolean}} [options]
 */
export async function save(inside, { optimizer = true } = {}) {
  const { plan, progress } = inside.model,
    { name: model, sha256: source } = plan.model,
    { steps, position, seed } = progress,
    format = 'wgcc-checkpoint',
    version = 1;
  return writeTensors(
    await valuesOfModel(inside, (_, key) => optimizer || !isOptimizers(key)),
    plan.tensors,
    // Keys in the order of the alphabet, as Python sorts them.
    optimizer || !keys(plan.optimizer ?? {})[0]
      ? { data: { position, seed }, format, model, optimizer: kindsOf(plan), source, steps: sorted(steps), version }
      : { format, model, source, version },
  );
}

/** @template T @param {Record<string, T>} all @returns {Record<string, T>} */
const sorted = all => fromEntries(pairsOf(all).sort());
/** The kind of each optimizer. @param {Plan} plan @returns {Record<string, string>} */
const kindsOf = plan => sorted(fromEntries(pairsOf(plan.optimizer ?? {}).map(([key, { kind }]) => [key, kind])));

/**
 * Puts back what `save` (here or in Python) wrote, for the same model with the same kinds of optimizers. `weightsOnly`
 * takes parameters and state of any model they fit; optimizers and steps start anew. The result is what the user
 * should know about the checkpoint, if anything.
 * @param {Inside} inside @param {ArrayBuffer | ArrayBufferView} bytes @param {{weightsOnly?: boolean}} [options]
 * @returns {Promise<string[]>}
 */
export async function restore(inside, bytes, { weightsOnly = false } = {}) {
  const { tensors, facts, progress } = readTensors(bytes, 'checkpoint'),
    { plan } = inside.model,
    lasting = lastingOf(inside);
  if (!weightsOnly) checkIdentity(plan, lasting, tensors, facts);
  const taken = fromEntries(pairsOf(tensors).filter(([key]) => !weightsOnly || !isOptimizers(key))),
    words = await wordsOf(taken, lasting, 'the checkpoint'),
    missing = keys(lasting).find(key => !words[key] && !isOptimizers(key));
  if (missing) fail('weights', missing, 'is not in the checkpoint');
  const start = await inside.start();
  await inside.writeAll({ ...start, ...words }, weightsOnly ? { steps: {}, position: 0, seed: 0 } : progress);
  return weightsOnly ? [] : notesOn(plan, facts);
}

/**
 * Refuses a checkpoint of another model or other optimizers, whose moments would make steps of a wrong size.
 * @param {Plan} plan @param {Tensors} lasting @param {Record<string, any>} tensors @param {any} facts
 */
function checkIdentity(plan, lasting, tensors, { model = plan.model.name, optimizer, steps = {} }) {
  const refuse = (/** @type {string} */ what) =>
      fail('mismatch', 'checkpoint', `${what}. To start from its weights alone: restore(bytes, {weightsOnly: true})`),
    now = kindsOf(plan),
    other = keys({ ...optimizer, ...now }).find(key => optimizer && optimizer[key] != now[key]);
  if (model != plan.model.name) refuse(`is of the model ${model}; this is ${plan.model.name}`);
  if (other) refuse(`was saved with another optimizer ${other}: ${optimizer[other] ?? 'none'}, now ${now[other] ?? 'none'}`);
  const wanted = keys(lasting).filter(isOptimizers),
    found = keys(tensors).filter(isOptimizers),
    odd = [...wanted, ...found].find(key => !(key in tensors && key in lasting));
  if (odd && (found[0] || keys(steps)[0])) refuse(`was saved with another optimizer: ${odd} is only in one of them`);
}

/** @param {Plan} plan @param {any} facts */
function notesOn(plan, { steps, optimizer, source = plan.model.sha256 }) {
  const notes = [];
  if (steps && !optimizer) notes.push('The checkpoint does not say which kind of optimizer it is of; it is taken for the same.');
  if (source != plan.model.sha256)
    notes.push(`The checkpoint was saved by another text of ${plan.model.name}; names, shapes and optimizers are the same.`);
  return notes;
}

// ---- checkpoints in the browser

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
 * Keeps a checkpoint in the browser (IndexedDB); whether the browser promised not to evict it.
 * @param {Inside} inside @param {string} [key]
 */
export async function store(inside, key = inside.model.plan.model.name) {
  const bytes = await save(inside);
  await stored('readwrite', checkpoints => checkpoints.put(bytes, key));
  return (await globalThis.navigator?.storage?.persist?.()) ?? false;
}
/** Restores what `store` kept, as `restore` does; false when there is nothing. @param {Inside} inside @param {string} [key] */
export async function recall(inside, key = inside.model.plan.model.name) {
  const bytes = await stored('readonly', checkpoints => checkpoints.get(key));
  return bytes ? restore(inside, bytes) : false;
}
