// The values that a model starts with: given weights, the bundle's own, or newly drawn ones.

import { loadDraw, loadFiles } from './parts.js';
import { isPersistent, wordCount } from './plan.js';
import { filterRecord, mapRecord, ownOf } from './records.js';
import { decodeBase64, isSealed, sealedTensors } from './seal.js';

/** @import { NamedWords, Words } from './arrays.js' */
/** @import { Bundle, LoadOptions, OnBytes } from './loader.js' */
/**
 * @typedef {object} ReadAgain
 * @property {(name: string) => boolean} isOnDevice
 * @property {(name: string) => boolean} isLeftOut
 * @property {() => void} forget
 * @property {(values: StartValues, isGiven: boolean) => Promise<StoredValues>} complete
 * @property {(others: NamedWords) => void} settle
 * @property {(name: string, words: Words) => void} drop
 * @property {(others: NamedWords) => void} note
 *
 * @typedef {object} StoredValues
 * @property {NamedWords} constants
 * @property {NamedWords} own from the bundle's weights
 * @property {NamedWords} given by the caller
 * @property {any} [preparation] stored with given weights
 * @property {boolean} isComplete whether `own` holds every parameter and state
 * @property {ReadAgain} [again] of large weights that are not kept: see files/read_again.js
 */

/** The words of every parameter, state and constant at the start, for any seed. */
export class StartValues {
  /** @param {Bundle} bundle @param {boolean} isSealedBundle @param {LoadOptions} options */
  static async load(bundle, isSealedBundle, options) {
    const isOwn = isSealedBundle && !options.weights;
    const stored =
      (isOwn && (await sealedValues(bundle, options))) ||
      (await (await loadFiles()).storedValues(bundle, options));
    return new StartValues(bundle, stored, options.seed);
  }

  /** @param {Bundle} bundle @param {StoredValues} stored @param {number} [seed] of `load` */
  constructor(bundle, stored, seed) {
    this.bundle = bundle;
    this.tensors = filterRecord(bundle.plan.tensors, isPersistent);
    this.constants = stored.constants;
    this.stored = stored;
    this.seed = seed;
    /** Hears of values that are drawn. @type {OnBytes | undefined} */
    this.onBytes = undefined;
  }

  /**
   * With a seed, random values are drawn from it; given weights are kept in any case.
   * @param {number | null} [seed] null: none
   */
  words(seed = this.seed) {
    return this.#words(seed, true);
  }

  /**
   * The values the bundle was built with, even if other weights or a seed were given, or its weights
   * file was replaced since.
   */
  async ownWords() {
    const { builtSeed } = await loadFiles();
    return this.#words(await builtSeed(this.bundle), false);
  }

  /**
   * @param {number | null | undefined} seed @param {boolean} isGiven whether given weights count
   * @returns {Promise<NamedWords>}
   */
  async #words(seed, isGiven) {
    const { again } = this.stored;
    const stored = (await again?.complete(this, isGiven)) ?? this.stored;
    const { own, isComplete } = stored;
    if (seed == null && isComplete) return { ...this.constants, ...own };
    const { startWords } = await loadDraw();
    const tensors = filterRecord(this.tensors, (_, name) => !again?.isOnDevice(name));
    const given = isGiven ? stored.given : {};
    const record = this.bundle.plan.weights;
    const drawn = await startWords(tensors, own, given, seed, record, this.onBytes);
    return { ...this.constants, ...drawn };
  }
}

/**
 * The values that the compiler sealed. Undefined if a file was changed, or values must be drawn:
 * then files/ reads them, and says what is wrong with them.
 * @param {Bundle} bundle @param {LoadOptions} options
 * @returns {Promise<StoredValues | undefined>}
 */
async function sealedValues({ plan, weights, constants, seal }, { signal, onBytes }) {
  // Many weights have a checksum instead, because there is no digest of a file that comes in pieces.
  if (!seal?.weights) return;
  try {
    const source = weights?.();
    // A file that the user chose is read as an answer is.
    const answer = async () => (source.arrayBuffer ? source : fetch(source, { signal }));
    const file = source.buffer ?? (await (await answer()).arrayBuffer());
    onBytes?.(file.byteLength, file.byteLength);
    const stored = sealedTensors(file);
    if (!(await isSealed(file, seal.weights))) return;
    return {
      constants: constants ? sealedTensors(decodeBase64(constants).buffer) : {},
      given: {},
      isComplete: true,
      // A tensor that is not in the file starts as a copy, or as zero.
      own: mapRecord(
        filterRecord(plan.tensors, isPersistent),
        (tensor, name) =>
          ownOf(stored, name) ??
          ownOf(stored, tensor.init?.of ?? '') ??
          new Uint32Array(wordCount(tensor)),
      ),
    };
  } catch {
    // files/ says what is wrong.
  }
}
