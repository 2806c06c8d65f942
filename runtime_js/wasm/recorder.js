// Records what a submit does, with the method names of WebGPU, so that the runtime uses the same
// code for both.

/** @import { Operation } from './thread.js' */
/** @typedef {{place: number, base: number, size: number}} Buffer bytes of a place from `base` on */

export class Recorder {
  /** @type {Operation[]} */
  operations = [];

  /**
   * @param {Buffer} from @param {number} fromAt @param {Buffer} to @param {number} toAt
   * @param {number} size
   */
  copyBufferToBuffer(from, fromAt, to, toAt, size) {
    const source = from.base + fromAt;
    this.operations.push(['copy', from.place, source, to.place, to.base + toAt, size]);
  }

  /** @param {Buffer} buffer @param {number} [at] @param {number} [size] */
  clearBuffer({ place, base, size: whole }, at = 0, size = whole - at) {
    this.operations.push(['clear', place, base + at, size]);
  }

  /** @param {string} name of an export */
  call(name) {
    this.operations.push(['call', name]);
  }
}
