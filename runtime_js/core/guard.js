// Keeps good parameters good: a copy from before each submit, and the plan's test for NaN after it.
// The test looks at everything an entry writes, because kernels with `max` or `min` hide NaN from
// the loss while the parameters are already lost.

import { recordPass } from './machine.js';
import { WORD_BYTES } from './plan.js';

/** @import { Machine } from './machine.js' */
/** @import { Tensor } from './plan.js' */
/** @typedef {[GPUBuffer, GPUBuffer]} Copy of a buffer */

/** Watches what one training entry writes. */
export class Guard {
  /** @param {Machine} machine @param {string} entryName */
  static async make(machine, entryName) {
    return new Guard(machine, entryName, await makeCopies(machine, entryName));
  }

  /** @param {Machine} machine @param {string} entryName @param {Copy[]} copies */
  constructor(machine, entryName, copies) {
    const { entries, tensors } = machine.plan;
    const { guard } = entries[entryName];
    this.machine = machine;
    this.commands = machine.guardCommands[entryName];
    this.copies = copies;
    /** A word that is set when something is not finite. @type {Tensor | undefined} */
    this.flag = guard && tensors[guard.flag];
  }

  get canRestore() {
    return this.copies.length > 0;
  }

  /** Records the copy of all that the entry may change. @param {GPUCommandEncoder} encoder */
  before(encoder) {
    for (const [buffer, copy] of this.copies)
      encoder.copyBufferToBuffer(buffer, 0, copy, 0, copy.size);
  }

  /** Records the test. @param {GPUCommandEncoder} encoder */
  after(encoder) {
    if (!this.flag) return;
    encoder.clearBuffer(this.machine.buffers[this.flag.buffer], this.flag.offset, WORD_BYTES);
    recordPass(encoder, this.commands);
  }

  /** Puts back the copy that was made last. */
  async restore() {
    await this.machine.finish(encoder => {
      for (const [buffer, copy] of this.copies)
        encoder.copyBufferToBuffer(copy, 0, buffer, 0, copy.size);
    });
  }
}

/** @param {Machine} machine @param {string} entryName @returns {Promise<Copy[]>} */
async function makeCopies(machine, entryName) {
  const { entries, tensors } = machine.plan;
  const written = new Set(entries[entryName].writes.map(id => tensors[id].buffer));
  try {
    return await machine.scoped('copies', () =>
      [...written].map(index => {
        const buffer = machine.buffers[index];
        return [buffer, machine.storage(buffer.size)];
      }),
    );
  } catch (/** @type {any} */ error) {
    // A model that fills the GPU's memory still trains; it only cannot go back by itself.
    if (error.code === 'memory') return [];
    throw error;
  }
}
