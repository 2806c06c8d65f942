// The GPU side of a bundle: its buffers, pipelines and bind groups on one device, each made once,
// those of an entry when it is first needed.
// Knows tensors as regions of words; other modules know values, names and files.

import { fail } from './errors.js';
import { inErrorScopes } from './gpu_errors.js';
import { dispatchesOf, WORD_BYTES } from './plan.js';
import { mapRecord } from './records.js';
import { runOrder } from './repeats.js';

/** @import { Words } from './arrays.js' */
/** @import { Device } from './device.js' */
/** @import { Waiter } from './gpu_errors.js' */
/** @import { Dispatch, Plan, Profile, Tensor } from './plan.js' */
/**
 * @typedef {[GPUComputePipeline, GPUBindGroup, [number, number, number]]} Command
 * @typedef {(encoder: GPUCommandEncoder, readback: GPUBuffer) => void} Recorder
 * @typedef {(done: number, total: number) => void} CompileProgress
 */

// As numbers, because Node does not define the names.
const MAP_READ = 0x1;
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const UNIFORM = 0x40;
const STORAGE = 0x80;
const BOUND = STORAGE | COPY_SRC | COPY_DST;
/** Copies to the host go through one buffer of at most this size. */
const READ_BYTES = 2 ** 24;

/** One bundle on one device under one profile; wasm/twin_machine.js has the same calls. */
export class Machine {
  /** In the plan's order. @type {GPUBuffer[]} */
  buffers = [];
  /**
   * What each compiled entry runs, and what tests the values it wrote.
   * @type {Record<string, Command[]>}
   */
  commands = {};
  /** @type {Record<string, Command[]>} */
  guardCommands = {};
  /** Entries that need no copies; only twins have such. @type {string[]} */
  checked = [];
  /** Of the job that runs; only a twin can end its calls. @type {AbortSignal | undefined} */
  signal;
  /** Whether weights were written, so that their f16 copies are to be made before other work. */
  isStale = true;
  /** What makes these copies. @type {Command[]} */
  #copyCommands = [];
  /** One command for each dispatch of each compiled entry. @type {Record<string, Command[]>} */
  #each = {};
  /** By kernel, as far as they were needed. @type {GPUComputePipeline[]} */
  #pipelines = [];
  /** Every buffer to be destroyed with the machine. @type {Set<GPUBuffer>} */
  #allocated = new Set();
  /** Buffers for one purpose each, used again. @type {Map<string, GPUBuffer>} */
  #reused = new Map();
  /** Which kernels run. @type {Profile} */
  #profile = {};
  /** Texts by file. @type {Record<string, string>} */
  #kernels = {};
  /** @type {CompileProgress} */
  #onProgress = () => {};

  /** @param {Device} device @param {Waiter} waiter @param {Plan} plan */
  constructor(device, waiter, plan) {
    this.device = device;
    this.gpu = device.gpu;
    this.lost = device.gpu.lost;
    /** What callers see. */
    const { name, subgroups } = device;
    this.adapter = { name, kind: 'webgpu', profile: '', subgroups };
    this.waiter = waiter;
    this.plan = plan;
  }

  /**
   * Allocates memory; entries are compiled when they are first needed.
   * @param {Profile} profile @param {Record<string, string>} kernels their texts by file
   * @param {CompileProgress} onProgress
   */
  async prepare(profile, kernels, onProgress) {
    this.#profile = profile;
    this.#kernels = kernels;
    this.#onProgress = onProgress;
    await this.scoped(`${this.plan.memory.peak} bytes`, () => {
      this.buffers = this.plan.buffers.map(({ bytes, role }) =>
        this.storage(bytes, role === 'counter' ? BOUND | UNIFORM : BOUND),
      );
    });
  }

  /** Compiles what entries run, unless that was done before. @param {string[]} entryNames */
  async compile(entryNames) {
    const missing = entryNames.filter(name => !Object.hasOwn(this.commands, name));
    if (!missing.length) return;
    const each = Object.fromEntries(missing.map(name => [name, this.dispatches(name)]));
    const guards = mapRecord(each, (_, name) => this.plan.entries[name].guard?.dispatches ?? []);
    const commandsOf = (/** @type {Dispatch[]} */ list) => list.map(one => this.#command(one));
    const { copies = [] } = this.plan;
    const dispatches = [...Object.values(each), ...Object.values(guards), copies].flat();
    await this.scoped('the kernels', () => this.#compileKernels(dispatches));
    // In scopes of their own, which hold only what is made before the first `await`.
    const [made, guardCommands, { all }] = await this.scoped('bindings', () =>
      [each, guards, { all: copies }].map(lists => mapRecord(lists, commandsOf)),
    );
    this.#copyCommands = all;
    Object.assign(this.#each, made);
    Object.assign(this.guardCommands, guardCommands);
    for (const name of missing)
      this.commands[name] = Array.from(
        runOrder(this.plan.entries[name]),
        ([number]) => made[name][number],
      );
  }

  /** Frees the GPU memory. */
  dispose() {
    for (const buffer of this.#allocated) buffer.destroy();
    if (this.device.isOwn) this.gpu.destroy();
  }

  /**
   * Runs `make` inside error scopes; its failures become `WgccError`s.
   * @template T @param {string} what @param {() => T} make
   */
  scoped(what, make) {
    return inErrorScopes(this.gpu, this.waiter, what, make);
  }

  /** What an entry runs under the profile. @param {string} entryName */
  dispatches(entryName) {
    return dispatchesOf(this.plan, entryName, this.#profile);
  }

  /** One command for each dispatch of an entry. @param {string} entryName */
  eachOf(entryName) {
    return this.#each[entryName];
  }

  /**
   * A new buffer, by default one that kernels can bind.
   * @param {number} size @param {number} [usage]
   */
  storage(size, usage = BOUND) {
    const buffer = this.gpu.createBuffer({ size, usage });
    this.#allocated.add(buffer);
    return buffer;
  }

  /** Holds the inputs of several calls until each is made. @param {number} size */
  staging(size) {
    return this.#reusable('staging', size);
  }

  /** @param {GPUBuffer} staging @param {number} at @param {Words} words */
  stage(staging, at, words) {
    this.gpu.queue.writeBuffer(staging, at, words);
  }

  /** One compute pass. @param {GPUCommandEncoder} encoder @param {Command[]} commands */
  record(encoder, commands) {
    recordPass(encoder, commands);
  }

  /** @param {GPUBuffer} buffer */
  free(buffer) {
    buffer.destroy();
    this.#allocated.delete(buffer);
  }

  /**
   * Starts to write. Nothing counts as written before something was read after it.
   * @param {Tensor} tensor @param {Words} words @param {number} [at] which byte of the tensor
   */
  write({ buffer, offset, role }, words, at = 0) {
    this.isStale ||= role === 'param';
    this.gpu.queue.writeBuffer(this.buffers[buffer], offset + at, words);
  }

  /**
   * Submits what `record` records, waits, and returns the first `size` bytes of the readback.
   * If that fails, `undo` undoes what the GPU may have done, because it will not be counted.
   * @param {number} size @param {Recorder} record @param {() => unknown} [undo]
   * @returns {Promise<Words>}
   */
  async submit(size, record, undo) {
    const readback = await this.#record(size, record);
    try {
      await this.waiter.wait(readback.mapAsync(MAP_READ, 0, size));
    } catch (error) {
      if (!this.waiter.failure) await undo?.();
      throw error;
    }
    const words = new Uint32Array(readback.getMappedRange(0, size).slice(0));
    readback.unmap();
    return words;
  }

  /**
   * Submits work of which nothing is read back, and waits until nothing is left to do.
   * @param {(encoder: GPUCommandEncoder) => void} [record]
   */
  async finish(record = () => {}) {
    await this.submit(WORD_BYTES, record);
  }

  /** @param {number} buffer @param {number} offset @param {number} size */
  async read(buffer, offset, size) {
    const words = new Uint32Array(size / WORD_BYTES);
    // Piece by piece, so that a large buffer needs no second one of its size.
    for (let at = 0; at < size; at += READ_BYTES) {
      const length = Math.min(READ_BYTES, size - at);
      const part = await this.submit(length, (encoder, readback) =>
        encoder.copyBufferToBuffer(this.buffers[buffer], offset + at, readback, 0, length),
      );
      words.set(part, at / WORD_BYTES);
    }
    return words;
  }

  /** @param {number} size @param {Recorder} record @returns {Promise<GPUBuffer>} */
  async #record(size, record) {
    try {
      return await this.scoped('results', () => {
        const encoder = this.gpu.createCommandEncoder();
        const readback = this.#reusable('readback', size, MAP_READ | COPY_DST);
        // A buffer that the work does not write could be mapped before the work is done.
        encoder.clearBuffer(readback, 0, WORD_BYTES);
        const copies = this.isStale ? this.#copyCommands : [];
        if (copies.length) recordPass(encoder, copies);
        record(encoder, readback);
        this.gpu.queue.submit([encoder.finish()]);
        if (copies.length) this.isStale = false;
        return readback;
      });
    } catch (error) {
      // One of them may be what failed; and copies may not have been made.
      this.#reused.clear();
      this.isStale = true;
      throw error;
    }
  }

  /** @param {string} purpose @param {number} size @param {number} [usage] */
  #reusable(purpose, size, usage) {
    const old = this.#reused.get(purpose);
    if (old && old.size >= size) return old;
    if (old) this.free(old);
    const buffer = this.storage(size, usage);
    this.#reused.set(purpose, buffer);
    return buffer;
  }

  /** Pipelines compile in parallel, long kernels first. @param {Dispatch[]} dispatches */
  async #compileKernels(dispatches) {
    const used = new Set(dispatches.map(({ kernel }) => kernel));
    const missing = [...used].filter(kernel => !this.#pipelines[kernel]);
    const length = (/** @type {number} */ kernel) => this.#text(kernel).length;
    missing.sort((a, b) => length(b) - length(a));
    let done = 0;
    await Promise.all(
      missing.map(async kernel => {
        this.#pipelines[kernel] = await this.#pipeline(kernel);
        this.#onProgress(++done, missing.length);
      }),
    );
  }

  /** @param {number} kernel */
  #text(kernel) {
    return this.#kernels[this.plan.kernels[kernel].file];
  }

  /** @param {number} kernel */
  async #pipeline(kernel) {
    const { name: label, entry: entryPoint } = this.plan.kernels[kernel];
    const { gpu } = this;
    const module = gpu.createShaderModule({ code: this.#text(kernel) });
    try {
      // The compiler's kernels use all their bindings, so the derived layout has them all.
      const description = {
        label,
        layout: /** @type {const} */ ('auto'),
        compute: { module, entryPoint },
      };
      return await gpu.createComputePipelineAsync(description);
    } catch (/** @type {any} */ error) {
      return fail('gpu', label, `was refused: ${error.message}`);
    }
  }

  /** @param {Dispatch} dispatch of a compiled kernel @returns {Command} */
  #command({ kernel, bindings, grid }) {
    const pipeline = this.#pipelines[kernel];
    const layout = pipeline.getBindGroupLayout(0);
    const entries = bindings.map(({ buffer, offset, size }, binding) => ({
      binding,
      resource: { buffer: this.buffers[buffer], offset, size },
    }));
    return [pipeline, this.gpu.createBindGroup({ layout, entries }), grid];
  }
}

/**
 * One compute pass.
 * @param {GPUCommandEncoder} encoder @param {Command[]} commands
 * @param {GPUComputePassDescriptor} [description]
 */
export function recordPass(encoder, commands, description) {
  const pass = encoder.beginComputePass(description);
  for (const [pipeline, group, grid] of commands) {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(...grid);
  }
  pass.end();
}
