// Runs one entry: any number of calls in one submit, their results in one mapped read.

import { fromWords } from './arrays.js';
import { bytesOf, inputTensors, isScalar, totalBytes, WORD_BYTES, wordCount } from './plan.js';
import { mapRecord } from './records.js';

/** @import { NamedWords, Values, Words } from './arrays.js' */
/** @import { Guard } from './guard.js' */
/** @import { Machine } from './machine.js' */
/** @import { RangeCheck, Tensors } from './plan.js' */
/**
 * @typedef {object} Outcome of one submit
 * @property {Record<string, Values>[]} results of each call
 * @property {string} [badOutput] a watched output that is not finite
 * @property {RangeCheck} [failedCheck] of an index that is out of range
 * @property {number} kept how many calls have been made that need not be repeated
 * @property {boolean} isBad whether an index is out of range, or something is not finite: an output,
 *   or what the entry wrote
 */

/** Read with the outputs; no output has a dot in its name. */
const RANGE_FLAG = 'guard.range';
const FINITE_FLAG = 'guard.finite';

export class Runner {
  /**
   * @param {Machine} machine @param {string} entryName
   * @param {string[]} ports the outputs to read @param {Guard} [guard]
   */
  constructor(machine, entryName, ports, guard) {
    const { entries, tensors } = machine.plan;
    const { inputs, outputs, range_guard: rangeGuard } = entries[entryName];
    this.machine = machine;
    this.guard = guard;
    // Commands of a twin are names of exports.
    const checked = /** @type {any[]} */ ([`${entryName}/checked`]);
    this.commands = guard?.isChecked ? checked : machine.commands[entryName];
    this.inputBytes = totalBytes(inputTensors(machine.plan, entryName));
    /** @type {Tensors} */
    this.inputs = mapRecord(inputs, id => tensors[id]);
    /** @type {Tensors} */
    this.outputs = Object.fromEntries(ports.map(port => [port, tensors[outputs[port]]]));
    this.rangeChecks = rangeGuard?.checks ?? [];
    if (rangeGuard) this.outputs[RANGE_FLAG] = tensors[rangeGuard.flag];
    if (guard?.isChecked && guard.flag) this.outputs[FINITE_FLAG] = guard.flag;
    this.outputBytes = totalBytes(Object.values(this.outputs));
  }

  /** A call per batch, in order. @param {NamedWords[]} batches @returns {Promise<Outcome>} */
  async run(batches) {
    const words = await this.machine.submit(
      // One more word is read, so that there is always something to wait for: the flag, or any.
      batches.length * this.outputBytes + WORD_BYTES,
      (encoder, readback) => this.#record(encoder, readback, batches),
      async () => {
        if (this.guard?.checksFinite) await this.guard.restore();
      },
    );
    const results = this.#decode(words, batches.length);
    const failedCheck = this.#failedCheck(results);
    const kept = this.#keptCalls(results);
    const badOutput = Object.keys(this.outputs).find(port => this.#isBad(port, results));
    const isFlagged = this.guard?.flag !== undefined && words[words.length - 1] !== 0;
    const seems = badOutput !== undefined || failedCheck !== undefined;
    const isBad = isFlagged || (seems && !this.guard?.isChecked);
    return { results, badOutput, failedCheck, kept, isBad };
  }

  /** How many calls of a submit that failed made their step. @param {Record<string, Values>[]} results */
  #keptCalls(results) {
    if (!this.outputs[FINITE_FLAG]) return 0;
    const flags = results.map(result => result[FINITE_FLAG][0]);
    for (const result of results) delete result[FINITE_FLAG];
    return Math.max(0, flags.indexOf(1));
  }

  /** Takes the flags out of the results. @param {Record<string, Values>[]} results */
  #failedCheck(results) {
    if (this.rangeChecks.length === 0) return undefined;
    const flags = results.map(result => result[RANGE_FLAG][0]);
    for (const result of results) delete result[RANGE_FLAG];
    const failed = flags.find(flag => flag !== 0);
    if (failed !== undefined)
      return this.rangeChecks.at(-Math.min(failed, this.rangeChecks.length));
  }

  /**
   * @param {GPUCommandEncoder} encoder @param {GPUBuffer} readback @param {NamedWords[]} batches
   */
  #record(encoder, readback, batches) {
    const staging = this.machine.staging(batches.length * this.inputBytes + WORD_BYTES);
    this.guard?.before(encoder);
    batches.forEach((batch, call) => {
      this.#recordInputs(encoder, staging, batch, call * this.inputBytes);
      this.machine.record(encoder, this.commands);
      this.#recordOutputs(encoder, readback, Object.values(this.outputs), call * this.outputBytes);
    });
    this.guard?.after(encoder);
    if (this.guard?.flag)
      this.#recordOutputs(encoder, readback, [this.guard.flag], batches.length * this.outputBytes);
  }

  /**
   * @param {GPUCommandEncoder} encoder @param {GPUBuffer} staging
   * @param {Record<string, Words | GPUBuffer>} batch @param {number} start in `staging`
   */
  #recordInputs(encoder, staging, batch, start) {
    let from = start;
    for (const [port, { buffer, offset }] of Object.entries(this.inputs)) {
      const given = batch[port];
      const to = this.machine.buffers[buffer];
      if ('byteLength' in given) {
        this.machine.stage(staging, from, given);
        encoder.copyBufferToBuffer(staging, from, to, offset, given.byteLength);
        from += given.byteLength;
      } else encoder.copyBufferToBuffer(given, 0, to, offset, given.size);
    }
  }

  /**
   * @param {GPUCommandEncoder} encoder @param {GPUBuffer} readback
   * @param {Tensors[string][]} tensors @param {number} start in `readback`
   */
  #recordOutputs(encoder, readback, tensors, start) {
    let to = start;
    for (const tensor of tensors) {
      const source = this.machine.buffers[tensor.buffer];
      encoder.copyBufferToBuffer(source, tensor.offset, readback, to, bytesOf(tensor));
      to += bytesOf(tensor);
    }
  }

  /** @param {Words} words @param {number} calls @returns {Record<string, Values>[]} */
  #decode(words, calls) {
    let at = 0;
    const next = (/** @type {Tensors[string]} */ tensor) => {
      const start = at;
      at += wordCount(tensor);
      return fromWords(words.slice(start, at), tensor);
    };
    return Array.from({ length: calls }, () => mapRecord(this.outputs, next));
  }

  /** @param {string} port @param {Record<string, Values>[]} results */
  #isBad(port, results) {
    const isWatched = this.guard?.checksFinite && isScalar(this.outputs[port]);
    return isWatched && results.some(result => !Number.isFinite(result[port][0]));
  }
}
