// The values that a model starts with, unless they are drawn: the bundle's own, and given ones.

import { areFinite, hasShape, listOf } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { convertInSlices } from '../core/long_arrays.js';
import { loadCheck } from '../core/parts.js';
import { inSlices } from '../core/pause.js';
import { isPersistent } from '../core/plan.js';
import { filterRecord, ownOf } from '../core/records.js';
import { decodeBase64, sha256Hex } from '../core/seal.js';
import { isAverage, withAverages } from './averages.js';
import { isOptimizerState } from './identity.js';
import { placeOf } from './places.js';
import { readAgain } from './read_again.js';
import { bytesAt, piecesAt } from './sources.js';
import { streamTensors } from './tensor_stream.js';

/** @import { NamedWords, Words } from '../core/arrays.js' */
/** @import { Bundle, LoadOptions } from '../core/loader.js' */
/** @import { Plan, Tensor, Tensors } from '../core/plan.js' */
/** @import { StoredValues } from '../core/values.js' */

/** Bytes that a safetensors file may have beyond its tensors: header and padding. */
const FILE_EXTRA = 2 ** 24;
/** How many times as wide as the model's own the elements of a file may be: i64 for u8. */
const WIDEST = 8;
/** Arrays of a file, which begin and end at whole words, that are as in the device's memory. */
const KEPT = /** @type {Record<string, Function>} */ ({
  f32: Float32Array,
  i8: Int8Array,
  u8: Uint8Array,
});

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
    return wordsOf(found.arrays, tensors, from, found.areOurs);
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
  const read = () => storedValues(bundle, { weights });
  const again = readAgain(plan, persistent, weights, read);
  return { constants, given, own, preparation, isComplete: false, again };
}

/**
 * Arrays by tensor name as words; unknown names and values that do not fit are refused.
 * @param {Record<string, any>} arrays @param {Tensors} tensors @param {string} from
 * @param {boolean} [areOurs] whether their memory may be kept
 * @returns {Promise<NamedWords>}
 */
export async function wordsOf(arrays, tensors, from, areOurs = false) {
  const words = /** @type {NamedWords} */ (Object.create(null));
  for (const [name, value] of Object.entries(arrays)) {
    if (!Object.hasOwn(tensors, name)) fail('weights', name, `of ${from} is not in the model`);
    words[name] =
      (await longWords(value, tensors[name], areOurs)) ??
      (await loadCheck()).refuseValue(value, tensors[name], name);
  }
  return words;
}

/**
 * A tensor's words, without blocking a page; undefined if type, shape or range are wrong.
 * @param {any} value @param {Tensor} tensor @param {boolean} isOurs
 * @returns {Promise<Words | undefined>}
 */
async function longWords(value, tensor, isOurs) {
  const list = listOf(value, tensor);
  if (!list || !hasShape(value, list, tensor)) return;
  if (!isOurs || value.constructor !== KEPT[tensor.dtype]) return convertInSlices(list, tensor);
  const isFine =
    tensor.dtype !== 'f32' ||
    (await inSlices(value.length, (from, to) => areFinite(value.subarray(from, to))));
  return isFine ? new Uint32Array(/** @type {ArrayBuffer} */ (value.buffer)) : undefined;
}

/**
 * Arrays by name, or those of a file, with its averages if they are asked for.
 * @param {any} source @param {Plan} plan @param {string} from
 * @param {Pick<LoadOptions, 'signal' | 'onBytes'>} watch @param {string} [averages]
 * @returns {Promise<{arrays: Record<string, any>, preparation: any, areOurs: boolean}>}
 */
async function arraysIn(source, plan, from, { signal, onBytes }, averages) {
  if (source.constructor === Object) return { arrays: source, preparation: null, areOurs: false };
  const limit = WIDEST * plan.memory.peak + FILE_EXTRA;
  const pieces = piecesAt(source, { limit, signal, onBytes });
  const isWanted = (/** @type {string} */ name) => Boolean(averages) || !isOptimizerState(name);
  const file = await streamTensors(pieces, from, limit, isWanted);
  const tensors = averages ? withAverages(file.tensors, averages) : file.tensors;
  // Moments without the step count that belongs to them would give steps of the wrong size.
  const arrays = filterRecord(tensors, (_, name) => !isOptimizerState(name));
  return { arrays, preparation: file.preparation, areOurs: true };
}

/**
 * The seed of the values that the bundle was built with; null if its weights file still holds them.
 * @param {Bundle} bundle @returns {Promise<number | null>}
 */
export async function builtSeed({ plan, weights }) {
  if (!plan.weights) return null;
  const { sha256, seed } = plan.weights;
  const file = await bytesAt(placeOf(weights), {});
  if (file && (await sha256Hex(file)) === sha256) return null;
  const text =
    'was replaced, and the self-test is for what was built: build it again with --weights';
  return seed ?? fail('weights', 'weights.safetensors', text);
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
