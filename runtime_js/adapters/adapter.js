// Low-rank corrections of a language model, as PEFT, llama.cpp and wgcc store them, in and out of a
// model. Mirrors adapters.py, peft_files.py and adapter_file.py. It uses what every model has, so that
// the model may be in a worker.

import { fail } from '../core/errors.js';
import { loadFiles } from '../core/parts.js';
import { filterRecord } from '../core/records.js';
import { isGguf } from './gguf.js';
import { ggufAdapter, readGguf } from './gguf_adapter.js';
import { fromPeft, toPeft } from './peft.js';
import { tensorFile } from './tensor_file.js';

/** @import { Plain } from './tensor_file.js' */
/**
 * @typedef {object} Factors of one layer: its correction of x is scale (x @ a @ b)
 * @property {Float32Array} a [inputs, rank] @property {Float32Array} b [rank, outputs]
 * @property {number} inputs @property {number} outputs @property {number} rank
 * @property {number} scale
 * @typedef {Map<string, Factors>} Adapter by layer, such as `blocks.0.attn.wq`
 * @typedef {Map<string, string>} Places names in the model of the layers that it corrects
 */

const PLACE = /blocks\.(\d+)\.(attn|mlp)\.(\w+)$/;
const STRENGTH = 'strength';
const CONFIG = 'adapter_config.json';

/**
 * Replaces the corrections of a model, or adds to them; steps and optimizers are reset. Nothing is
 * changed if they do not fit.
 * @param {any} model @param {any} source both files of PEFT, a GGUF adapter, a checkpoint; null: none
 * @param {{strength?: number, add?: boolean}} [options]
 */
export async function loadAdapter(model, source, { strength = 1, add = false } = {}) {
  const places = placesOf(model.plan);
  const files = source === null ? [] : [source].flat().map(asBlob);
  const given = files.length ? await readAdapter(files, model, places) : new Map();
  for (const factors of given.values()) factors.scale *= strength;
  const adapter = add ? sum(await modelAdapter(model, places), given) : given;
  checkLayers(adapter, places);
  const tensors = await fitted(model, adapter, places);
  await model.restore(tensorFile(await withOthers(model, tensors)), { weightsOnly: true });
}

/**
 * The corrections as files, by name.
 * @param {any} model
 * @param {{form?: 'peft' | 'gguf', base?: string, architecture?: string}} [options] `base`: of PEFT,
 *   the model's name; `architecture`: of GGUF, such as `llama`
 * @returns {Promise<Record<string, Uint8Array<ArrayBuffer>>>}
 */
export async function saveAdapter(model, { form = 'peft', base = '', architecture } = {}) {
  const places = placesOf(model.plan);
  const adapter = await modelAdapter(model, places);
  for (const [name, factors] of adapter) adapter.set(name, trimmed(factors));
  if (form === 'peft') return toPeft(adapter, base);
  if (form !== 'gguf') fail('name', 'form', `is peft or gguf, not ${form}`);
  if (!architecture) fail('name', 'architecture', 'is needed, such as llama');
  return {
    'adapter.gguf': ggufAdapter(
      adapter,
      /** @type {string} */ (architecture),
      headSize(model.plan),
    ),
  };
}

/** Adds the corrections to the weights that they correct, which must be plain floats. @param {any} model */
export async function mergeAdapter(model) {
  const places = placesOf(model.plan);
  const adapter = await modelAdapter(model, places);
  const { tensors } = model.plan;
  for (const name of places.values())
    if (tensors[`${name}.w`]?.dtype !== 'f32')
      fail('weights', name, 'has packed weights, which cannot take a correction without rounding');
  const weights = await model.params([...places.values()].map(name => `${name}.w`));
  /** @type {Record<string, Float32Array>} */
  const merged = {};
  for (const [short, name] of places) {
    const factors = /** @type {Factors} */ (adapter.get(short));
    merged[`${name}.w`] = corrected(weights[`${name}.w`], factors);
    merged[`${name}.lora_b`] = new Float32Array(factors.b.length);
  }
  await model.loadParams(merged, { strict: false });
}

/** @param {Blob[]} files @param {any} model @param {Places} places @returns {Promise<Adapter>} */
async function readAdapter(files, model, places) {
  const config = files.find(file => /** @type {any} */ (file).name?.endsWith('.json'));
  const weights = files.find(file => file !== config) ?? fail('weights', 'adapter', 'is missing');
  const name = /** @type {any} */ (weights).name ?? 'the adapter';
  if (await isGguf(weights)) return readGguf(weights, name, headSize(model.plan));
  const { readTensors } = await loadFiles();
  const { tensors } = readTensors(await weights.arrayBuffer(), name);
  if (config) return fromPeft(tensors, await config.text(), name);
  return (
    ownAdapter(tensors, places, await strengthOf(model)) ??
    fail('weights', name, `is no checkpoint of this model; give ${CONFIG} of PEFT with it`)
  );
}

/** @param {any} source @returns {Blob} */
function asBlob(source) {
  return source instanceof Blob ? source : new Blob([source]);
}

/** The factors of a checkpoint. @param {Record<string, any>} tensors @param {Places} places @param {number} scale */
function ownAdapter(tensors, places, scale) {
  /** @type {Adapter} */
  const adapter = new Map();
  for (const [short, name] of places) {
    const [a, b] = [tensors[`${name}.lora_a`], tensors[`${name}.lora_b`]];
    if (!a || !b) return undefined;
    const [[inputs, rank], [, outputs]] = [a.shape, b.shape];
    adapter.set(short, { a, b, inputs, outputs, rank, scale });
  }
  return adapter;
}

/** What the model has now. @param {any} model @param {Places} places @returns {Promise<Adapter>} */
async function modelAdapter(model, places) {
  const names = [...places.values()].flatMap(name => [`${name}.lora_a`, `${name}.lora_b`]);
  const values = await model.params(names);
  for (const name of names) values[name].shape = model.plan.tensors[name].shape;
  return /** @type {Adapter} */ (ownAdapter(values, places, await strengthOf(model)));
}

/**
 * The factors as the model has them: with its scale, and zeros in `b` up to its rank. What is left of
 * `a` stays as it is, so that it can learn.
 * @param {any} model @param {Adapter} adapter @param {Places} places
 */
async function fitted(model, adapter, places) {
  const own = await modelAdapter(model, places);
  const strength = await strengthOf(model);
  /** @type {Record<string, Plain>} */
  const tensors = {};
  for (const [short, name] of places) {
    const { a, inputs, outputs, rank } = /** @type {Factors} */ (own.get(short));
    const b = new Float32Array(rank * outputs);
    const given = adapter.get(short);
    if (given) {
      checkSize(short, given, { inputs, outputs, rank });
      for (let i = 0; i < inputs; i++)
        a.set(given.a.subarray(i * given.rank, (i + 1) * given.rank), i * rank);
      const scale = Math.fround(given.scale / strength);
      b.set(given.b.map(value => value * scale));
    }
    tensors[`${name}.lora_a`] = { shape: [inputs, rank], data: a };
    tensors[`${name}.lora_b`] = { shape: [rank, outputs], data: b };
  }
  return tensors;
}

/**
 * Adds what a checkpoint must hold beside: weights that the bundle has are left out.
 * @param {any} model @param {Record<string, Plain>} tensors
 */
async function withOthers(model, tensors) {
  const params = filterRecord(
    model.plan.tensors,
    (/** @type {any} */ { role }, name) => role === 'param' && !(name in tensors),
  );
  if (Object.values(params).some((/** @type {any} */ { init }) => init?.kind === 'external'))
    return tensors;
  const values = await model.params(Object.keys(params));
  for (const [name, { shape }] of Object.entries(params))
    tensors[name] = { shape, data: values[name] };
  return tensors;
}

/** Both at once: ranks add up. @param {Adapter} one @param {Adapter} two @returns {Adapter} */
function sum(one, two) {
  const all = new Map(one);
  for (const [name, factors] of two) {
    const other = all.get(name);
    all.set(name, other ? joined(name, trimmed(other), factors) : factors);
  }
  return all;
}

/** @param {string} name @param {Factors} one @param {Factors} two @returns {Factors} */
function joined(name, one, two) {
  const { inputs, outputs } = one;
  if (inputs !== two.inputs || outputs !== two.outputs)
    fail('shape', name, `has ${sizes(one)} in one adapter, ${sizes(two)} in the other`);
  const rank = one.rank + two.rank;
  const a = new Float32Array(inputs * rank);
  for (let i = 0; i < inputs; i++) {
    a.set(one.a.subarray(i * one.rank, (i + 1) * one.rank), i * rank);
    a.set(two.a.subarray(i * two.rank, (i + 1) * two.rank), i * rank + one.rank);
  }
  const b = new Float32Array(rank * outputs);
  b.set(one.b.map(value => value * Math.fround(one.scale)));
  b.set(
    two.b.map(value => value * Math.fround(two.scale)),
    one.rank * outputs,
  );
  return { a, b, inputs, outputs, rank, scale: 1 };
}

/** Without the last ranks that do nothing; one is kept. @param {Factors} factors @returns {Factors} */
function trimmed(factors) {
  const { a, b, inputs, outputs } = factors;
  let rank = factors.rank;
  while (rank > 1 && b.subarray((rank - 1) * outputs, rank * outputs).every(value => value === 0))
    rank--;
  if (rank === factors.rank) return factors;
  const kept = new Float32Array(inputs * rank);
  for (let i = 0; i < inputs; i++)
    kept.set(a.subarray(i * factors.rank, i * factors.rank + rank), i * rank);
  return { ...factors, a: kept, b: b.slice(0, rank * outputs), rank };
}

/** @param {Float32Array} weights [inputs, outputs] @param {Factors} factors */
function corrected(weights, { a, b, inputs, outputs, rank, scale }) {
  const sums = weights.slice();
  for (let i = 0; i < inputs; i++)
    for (let k = 0; k < rank; k++) {
      const factor = scale * a[i * rank + k];
      for (let j = 0; j < outputs; j++) sums[i * outputs + j] += factor * b[k * outputs + j];
    }
  return sums;
}

/** @param {any} plan @returns {Places} */
function placesOf({ tensors }) {
  const params = filterRecord(
    tensors,
    (/** @type {any} */ { role }, name) => role === 'param' && name.endsWith('.lora_a'),
  );
  const places = new Map();
  for (const key of Object.keys(params)) {
    const name = key.slice(0, -'.lora_a'.length);
    const match = PLACE.exec(name);
    if (match) places.set(match[0], name);
  }
  if (!places.size)
    fail('weights', 'lora_a', 'is in no layer: the model was not built to be corrected');
  return places;
}

/** @param {any} model @returns {Promise<number>} */
async function strengthOf(model) {
  if (!(STRENGTH in model.plan.entries))
    fail('name', STRENGTH, 'is no entry: it says what corrections are multiplied by');
  return (await model.call(STRENGTH)).scale[0];
}

/** The width of a head, which the cache tells. @param {any} plan @returns {number} */
function headSize({ tensors }) {
  const name = Object.keys(tensors).find(key => key.endsWith('.attn.keys'));
  return name ? tensors[name].shape.at(-1) : fail('weights', 'keys', 'are in no cache');
}

/** Every layer must be one that the model corrects, and none may miss between others. @param {Adapter} adapter @param {Places} places */
function checkLayers(adapter, places) {
  const blocks = new Set([...places.keys()].map(name => name.split('.')[1]));
  const roleOf = (/** @type {string} */ name) => name.split('.').slice(2).join('.');
  const roles = new Set([...places.keys()].map(roleOf));
  for (const name of adapter.keys()) {
    if (!blocks.has(name.split('.')[1]))
      fail('weights', name, `is corrected; the model has ${blocks.size} blocks: it is another's`);
    if (!roles.has(roleOf(name)))
      fail('weights', name, `is corrected, the model only has room at ${[...roles].join(', ')}`);
  }
  for (const role of new Set([...adapter.keys()].map(roleOf)))
    for (const block of blocks)
      if (!adapter.has(`blocks.${block}.${role}`))
        fail('weights', `blocks.${block}.${role}`, 'has no factors, others have: it is not whole');
}

/** @param {string} name @param {Factors} factors @param {{inputs: number, outputs: number, rank: number}} own */
function checkSize(name, factors, own) {
  if (factors.inputs !== own.inputs || factors.outputs !== own.outputs)
    fail('shape', name, `has ${sizes(factors)}, the model's ${sizes(own)}: it is another's`);
  if (factors.rank > own.rank)
    fail('shape', name, `has rank ${factors.rank}, the model room for ${own.rank}`);
}

/** @param {{inputs: number, outputs: number}} factors */
function sizes({ inputs, outputs }) {
  return `${inputs} × ${outputs}`;
}
