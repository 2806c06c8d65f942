// The values that a model starts with, unless they are drawn: the bundle's own, and given ones.

import { toWords } from '../core/arrays.js';
import { bytesOfBody } from '../core/download.js';
import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { isPersistent } from '../core/plan.js';
import { filterRecord, ownOf } from '../core/records.js';
import { decodeBase64, sha256Hex } from '../core/seal.js';
import { isAverage, withAverages } from './averages.js';
import { isOptimizerState } from './identity.js';
import { placeOf } from './places.js';
import { readTensors } from './safetensors.js';

/** @import { NamedWords } from '../core/arrays.js' */
/** @import { OnBytes } from '../core/download.js' */
/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Plan, Tensors } from '../core/plan.js' */
/** @import { StoredValues } from '../core/values.js' */

/** Bytes that a safetensors file may have beyond its tensors: header and padding. */
const FILE_EXTRA = 2 ** 24;
/** How many times as wide as the model's own the elements of a file may be: i64 for u8. */
const WIDEST = 8;
const ADVICE =
  'copy it beside the scripts, or say where it is: load({baseUrl}), or load({weights}) with a URL or bytes';

/** @param {Bundle} bundle @param {LoadOptions} options @returns {Promise<StoredValues>} */
export async function storedValues(bundle, { weights, signal, onBytes }) {
  /** @type {Plan} */
  const plan = bundle.plan;
  const persistent = filterRecord(plan.tensors, isPersistent);
  const fixed = filterRecord(plan.tensors, tensor => tensor.role === 'constant');
  let preparation = null;
  /** @type {(source: any, tensors: Tensors, from: string, averages?: string) => Promise<NamedWords>} */
  const load = async (source, tensors, from, averages) => {
    if (!source) return {};
    const found = await arraysIn(source, plan, from, { signal, onBytes }, averages);
    preparation ??= found.preparation;
    return wordsOf(found.arrays, tensors, from);
  };
  const constants = await load(
    bundle.constants && decodeBase64(bundle.constants),
    fixed,
    'constants',
  );
  const given = isAverage(weights)
    ? await load(
        placeOf(bundle.weights) ?? fail('weights', weights, 'is not in the bundle'),
        persistent,
        'weights.safetensors',
        weights,
      )
    : await load(weights, persistent, 'weights');
  // If given weights replace all of the bundle's, its file is not needed: a web bundler may omit it.
  const isReplaced = Object.keys(persistent).every(
    name => ownOf(given, name) || isOptimizerState(name),
  );
  const own = isReplaced
    ? {}
    : await load(placeOf(bundle.weights), persistent, 'weights.safetensors');
  checkComplete(plan, { constants, given, own }, Boolean(weights));
  return { constants, given, own, preparation, isComplete: false };
}

/**
 * Arrays by tensor name as words; unknown names and values that do not fit are refused.
 * @param {Record<string, any>} arrays @param {Tensors} tensors @param {string} from
 * @returns {Promise<NamedWords>}
 */
export async function wordsOf(arrays, tensors, from) {
  const words = /** @type {NamedWords} */ (Object.create(null));
  for (const [name, value] of Object.entries(arrays)) {
    if (!Object.hasOwn(tensors, name)) fail('weights', name, `of ${from} is not in the model`);
    words[name] =
      toWords(value, tensors[name]) ?? (await loadCheck()).refuseValue(value, tensors[name], name);
  }
  return words;
}

/**
 * Arrays by name, or those of a file, with its averages if they are asked for.
 * @param {any} source @param {Plan} plan @param {string} from
 * @param {Pick<LoadOptions, 'signal' | 'onBytes'>} watch @param {string} [averages]
 * @returns {Promise<{arrays: Record<string, any>, preparation: any}>}
 */
async function arraysIn(source, plan, from, { signal, onBytes }, averages) {
  if (source.constructor === Object) return { arrays: source, preparation: null };
  const limit = WIDEST * plan.memory.peak + FILE_EXTRA;
  const bytes = await bytesAt(source, limit, signal, 'weights', ADVICE, onBytes);
  onBytes?.(bytes.byteLength, bytes.byteLength);
  const file = readTensors(bytes, from);
  const tensors = averages ? withAverages(file.tensors, averages) : file.tensors;
  // Moments without the step count that belongs to them would give steps of the wrong size.
  const arrays = filterRecord(tensors, (_, name) => !isOptimizerState(name));
  return { arrays, preparation: file.preparation };
}

/**
 * The seed of the values that the bundle was built with; null if its weights file still holds them.
 * @param {Bundle} bundle @returns {Promise<number | null>}
 */
export async function builtSeed({ plan, weights }) {
  if (!plan.weights) return null;
  const { sha256, seed } = plan.weights;
  const file = await bytesAt(placeOf(weights), Infinity);
  if (file && (await sha256Hex(file)) === sha256) return null;
  const text =
    'was replaced, and the self-test is for what was built: build it again with --weights';
  return seed ?? fail('weights', 'weights.safetensors', text);
}

/**
 * The bytes of a file, or those given instead.
 * @param {any} source @param {number} limit @param {AbortSignal} [signal]
 * @param {string} [code] of the error where it cannot be read @param {string} [advice]
 * @param {OnBytes} [onBytes] @returns {Promise<any>}
 */
export async function bytesAt(source, limit, signal, code = 'weights', advice = ADVICE, onBytes) {
  // A File, Blob or Response.
  if (typeof source?.arrayBuffer === 'function') return source.arrayBuffer();
  if (typeof source !== 'string' && !(source instanceof URL)) return source;
  try {
    const { process } = /** @type {any} */ (globalThis);
    // Node fetches no files.
    const files =
      `${source}`.startsWith('file:') && process?.getBuiltinModule?.('node:fs/promises');
    if (files) return await files.readFile(new URL(source), { signal });
    const response = await fetch(source, { signal });
    if (!response.ok) throw new Error(`status ${response.status}`);
    // What some servers send for any address that they do not know.
    if (response.headers.get('content-type')?.startsWith('text/html'))
      throw new Error('the server sent a page instead');
    if (Number(response.headers.get('content-length')) > limit) throw new Error('it is too large');
    return await bytesOfBody(response, onBytes);
  } catch (error) {
    signal?.throwIfAborted();
    // Where vite serves a file from outside its folder.
    const todo = `${source}`.includes('/@fs/')
      ? 'let vite serve its folder: server.fs.allow in vite.config.js'
      : advice;
    return fail(code, `${source}`, `cannot be read (${error}): ${todo}`);
  }
}

/**
 * @param {Plan} plan @param {{constants: NamedWords, given: NamedWords, own: NamedWords}} found
 * @param {boolean} hasWeights whether the caller gave some
 */
function checkComplete({ tensors }, { constants, given, own }, hasWeights) {
  const names = Object.keys(tensors);
  const outside = names.filter(
    name => isPersistent(tensors[name]) && tensors[name].init?.kind === 'external',
  );
  const missing =
    names.find(name => tensors[name].role === 'constant' && !ownOf(constants, name)) ??
    outside.find(name => !ownOf(given, name) && !ownOf(own, name)) ??
    names.find(
      name =>
        hasWeights && !outside.length && tensors[name].role === 'param' && !ownOf(given, name),
    );
  if (missing) fail('weights', missing, 'is in no file of weights: load({weights})');
}
