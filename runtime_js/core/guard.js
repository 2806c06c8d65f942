// Undoes failed calls: a copy before each submit, and the plan's test for NaN after it. The test
// checks everything a training entry writes, because kernels with `max` or `min` can hide a NaN
// from the loss while the parameters are already NaN. For other entries a copy is made only if they
// may find an index out of range, and only of the tensors that such a call can change. Steps of
// large models on the twin check what they will write before they write it, and need no copy.

import { bytesOf, WORD_BYTES } from './plan.js';

/** @import { Machine } from './machine.js' */
/** @import { Tensor } from './plan.js' */
/** @typedef {{buffer: GPUBuffer, offset: number, size: number}} Region of a buffer, in bytes */
/** @typedef {{region: Region, copy: GPUBuffer}} Copy */

/** Checks what one entry writes. */
export class Guard {
  /**
   * @param {Machine} machine @param {string} entryName @param {boolean} checksFinite
   * @param {boolean} [copies] also what steps check themselves
   */
  static async make(machine, entryName, checksFinite, copies) {
    const isChecked = checksFinite && !copies && machine.checked.includes(entryName);
    const regions = isChecked ? [] : watchedRegions(machine, entryName);
    const made = await makeCopies(machine, regions);
    return new Guard(machine, entryName, checksFinite, made, isChecked);
  }

  /**
   * @param {Machine} machine @param {string} entryName
   * @param {boolean} checksFinite whether values that are not finite count as errors
   * @param {Copy[]} [copies] undefined if there is no memory for them
   * @param {boolean} [isChecked] whether steps change nothing if they would have to be undone
   */
  constructor(machine, entryName, checksFinite, copies, isChecked = false) {
    const { entries, tensors } = machine.plan;
    const { guard } = entries[entryName];
    this.machine = machine;
    this.checksFinite = checksFinite;
    this.commands = machine.guardCommands[entryName];
    this.copies = copies;
    this.isChecked = isChecked;
    /** A word that is set if a value is not finite. @type {Tensor | undefined} */
    this.flag = checksFinite && guard ? tensors[guard.flag] : undefined;
  }

  get canRestore() {
    return this.copies !== undefined;
  }

  /** Records the copy of all that the entry may change. @param {GPUCommandEncoder} encoder */
  before(encoder) {
    if (this.isChecked) this.clearFlag(encoder);
    for (const { region, copy } of this.copies ?? [])
      encoder.copyBufferToBuffer(region.buffer, region.offset, copy, 0, region.size);
  }

  /** Records the test. @param {GPUCommandEncoder} encoder */
  after(encoder) {
    if (!this.flag || this.isChecked) return;
    this.clearFlag(encoder);
    this.machine.record(encoder, this.commands);
  }

  /** @param {GPUCommandEncoder} encoder */
  clearFlag(encoder) {
    const { buffer, offset } = /** @type {Tensor} */ (this.flag);
    encoder.clearBuffer(this.machine.buffers[buffer], offset, WORD_BYTES);
  }

  /** Restores the last copy. */
  async restore() {
    await this.machine.finish(encoder => {
      for (const { region, copy } of this.copies ?? [])
        encoder.copyBufferToBuffer(copy, 0, region.buffer, region.offset, region.size);
    });
    this.machine.isStale = true;
  }
}

/**
 * Whole buffers for a training entry, which writes nearly all of them; else single tensors.
 * @param {Machine} machine @param {string} entryName @returns {Region[]}
 */
function watchedRegions({ plan: { entries, tensors }, buffers }, entryName) {
  const { training, writes, range_guard: rangeGuard } = entries[entryName];
  if (training) {
    const written = new Set(writes.map(id => buffers[tensors[id].buffer]));
    return [...written].map(buffer => ({ buffer, offset: 0, size: buffer.size }));
  }
  return (rangeGuard?.restored ?? []).map(id => {
    const { buffer, offset } = tensors[id];
    return { buffer: buffers[buffer], offset, size: bytesOf(tensors[id]) };
  });
}

/** @param {Machine} machine @param {Region[]} regions @returns {Promise<Copy[] | undefined>} */
async function makeCopies(machine, regions) {
  /** @type {Copy[]} */
  const copies = [];
  try {
    await machine.scoped('copies', () => {
      for (const region of regions) copies.push({ region, copy: machine.storage(region.size) });
    });
    return copies;
  } catch (/** @type {any} */ error) {
    for (const { copy } of copies) machine.free(copy);
    // A model that fills the GPU's memory still trains; only failed steps cannot be undone.
    if (error.code === 'memory') return undefined;
    throw error;
  }
}
