// Large weights that no entry changes: once they are on the device, the host does not keep them. Where
// they are needed there again, they are read again from where they came. Mirrors read_again.py.

import { totalBytes } from '../core/plan.js';
import { filterRecord, mapRecord } from '../core/records.js';
import { leftOut } from './left_out.js';
import { isAddress } from './sources.js';

/** @import { NamedWords, Words } from '../core/arrays.js' */
/** @import { Plan, Tensors } from '../core/plan.js' */
/** @import { StartValues, StoredValues } from '../core/values.js' */

/** Fewer bytes are kept: the host has room for them. */
const LEAST_BYTES = 2 ** 23;

export class ReadAgain {
  /** Whether the device has the weights of `load` that are not kept. */
  #areOnDevice = false;
  /** Whether all memory of the device is zero. */
  #isBlank = true;
  /** Whether they were left out of `values.stored`. */
  #areLeft = false;
  /** Whether the last words were those of `load`, not the bundle's own in place of given ones. */
  #areOfLoad = true;
  #fixed;
  #scratch;
  #zeros;
  #read;

  /**
   * @param {Tensors} fixed the weights that are not kept
   * @param {Tensors} scratch state that snapshots leave out, because it can start anew
   * @param {() => Promise<StoredValues>} read
   */
  constructor(fixed, scratch, read) {
    this.#fixed = nameSet(fixed);
    this.#scratch = nameSet(scratch);
    this.#zeros = nameSet(filterRecord(scratch, ({ init }) => `${init?.values ?? [0]}` === '0'));
    this.#read = read;
  }

  /** Whether the start need not be written. @param {string} name */
  isOnDevice(name) {
    return this.#areOnDevice ? this.#fixed.has(name) : this.#isBlank && this.#zeros.has(name);
  }

  /** Whether a snapshot leaves it out. @param {string} name */
  isLeftOut(name) {
    return this.isOnDevice(name) || this.#scratch.has(name);
  }

  /** There is a new device. */
  forget() {
    this.#areOnDevice = false;
    this.#isBlank = true;
  }

  /**
   * All that words are made of: what was left out is read again, unless the device has it. From then
   * on, `values` has only what cannot be read again.
   * @param {StartValues} values @param {boolean} isGiven whether given weights count
   */
  async complete(values, isGiven) {
    const { stored } = values;
    this.#areOfLoad = isGiven || ![...this.#fixed].some(name => name in stored.given);
    this.#areOnDevice &&= this.#areOfLoad;
    const isRead = this.#areLeft && !this.#areOnDevice;
    const { own, given } = isRead ? await this.#read() : stored;
    // Which weights were given is still known.
    const emptied = (/** @type {NamedWords} */ words) =>
      mapRecord(words, (list, name) => (this.#fixed.has(name) ? NONE : list));
    values.stored = { ...stored, own: emptied(own), given: emptied(given) };
    this.#areLeft = true;
    return { ...stored, own, given };
  }

  /** All words are written, some of them in place of those of the start. @param {NamedWords} others */
  settle(others) {
    this.#areOnDevice = this.#areOfLoad;
    this.#isBlank = false;
    this.note(others);
  }

  /**
   * Frees the memory of words that were written, without waiting until it is collected.
   * @param {string} name @param {Words} words
   */
  drop(name, words) {
    if (this.isOnDevice(name)) words.buffer.transfer?.(0);
  }

  /** Words that were written. @param {NamedWords} others */
  note(others) {
    this.#areOnDevice &&= !Object.keys(others).some(name => this.#fixed.has(name));
  }
}

const NONE = new Uint32Array();
const nameSet = (/** @type {Tensors} */ tensors) => new Set(Object.keys(tensors));

/**
 * Undefined if all is kept, because it is small, or because its source can be read only once.
 * @param {Plan} plan @param {Tensors} persistent @param {any} weights that the caller gave
 * @param {() => Promise<StoredValues>} read
 */
export function readAgain(plan, persistent, weights, read) {
  if (weights && !isReadable(weights)) return;
  const fixed = fixedTensors(plan, persistent);
  if (totalBytes(Object.values(fixed)) < LEAST_BYTES) return;
  const omitted = leftOut(plan, persistent);
  const scratch = filterRecord(
    persistent,
    ({ role }, name) => role === 'state' && omitted.has(name),
  );
  return new ReadAgain(fixed, scratch, read);
}

/** An address or a file; arrays and bytes may be changed by the caller, and an answer is used up. */
function isReadable(/** @type {any} */ source) {
  return isAddress(source) || (typeof source.stream === 'function' && !('bodyUsed' in source));
}

/** @param {Plan} plan @param {Tensors} persistent @returns {Tensors} */
function fixedTensors({ entries, weights }, persistent) {
  const written = new Set(Object.values(entries).flatMap(entry => entry.writes));
  const copied = new Set(Object.values(persistent).map(({ init }) => init?.of));
  const areGiven = weights && weights.seed === undefined;
  return filterRecord(
    persistent,
    ({ role, init }, name) =>
      role === 'param' &&
      (areGiven || init?.kind === 'external') &&
      !written.has(name) &&
      !copied.has(name),
  );
}
