// plan.json as types, and facts that follow from it. The plan is already checked: see loader.js.

import { ownOf } from './records.js';

/**
 * @typedef {'f32' | 'f16' | 'i32' | 'u32' | 'i8' | 'u8' | 'bool'} Dtype
 * @typedef {{kind: string, args?: Record<string, number>, values?: number[], of?: string}} Init
 * @typedef {{dtype: Dtype, any_float?: boolean}} Elements `any_float`: NaN and infinity, too
 * @typedef {Elements & {shape: number[], buffer: number, offset: number, role: string,
 *   init?: Init}} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 * @typedef {{low: number, high: number, ignore?: number}} Range of integers that an input may hold
 * @typedef {{buffer: number, offset: number, size: number}} Binding
 * @typedef {[number, number, number]} Grid
 * @typedef {{kernel: number, bindings: Binding[], grid: Grid, at?: string,
 *   label?: string, flops?: number}} Dispatch
 * @typedef {{first: number, count: number, rounds: number}} Repeat of a range of dispatches
 * @typedef {{flag: string, dispatches: Dispatch[]}} EntryGuard
 * @typedef {{what: string, at: string} & Range} RangeCheck of an index or label computed on the GPU
 * @typedef {{flag: string, checks: RangeCheck[], restored: string[]}} RangeGuard each call sets
 *   `flag`: 0, or n where the n-th check from the end failed
 * @typedef {{count: number, inputs: string[], dim?: string, outputs?: Record<string, string>,
 *   why?: string}} Rows the leading axis that inputs share; with `outputs` (`rows`, `mean`, `sum` or
 *   `same`) each row is computed alone, otherwise `why` says what prevents that
 * @typedef {{dispatch?: number, gradients?: Binding[], outputs?: string[], state?: string[],
 *   why?: string}} Exchange what machines that train one model together average: `gradients`,
 *   complete before a dispatch, and after the call `outputs` and `state`
 * @typedef {{tensor?: string, numbers?: string, counts?: string, shape?: number[],
 *   rows?: 'rows' | 'same'}} Capture of a value: itself, or its statistics; `rows` where calls in
 *   parts can be joined
 * @typedef {{inputs: Record<string, string>, outputs: Record<string, string>,
 *   captures?: Record<string, Capture>,
 *   ranges?: Record<string, Range | [number, number]>, dispatches: Dispatch[], writes: string[],
 *   training: boolean, guard?: EntryGuard, range_guard?: RangeGuard, repeats?: Repeat[],
 *   rows?: Rows, exchange?: Exchange}} Entry
 * @typedef {{name: string, file: string, sha256: string, entry: string, workgroup: number[],
 *   access: string[], subgroups?: string}} Kernel
 * @typedef {{dispatch: number, kernel: number, grid: Grid}} Replacement of one dispatch
 * @typedef {Record<string, Replacement[]>} Profile by entry
 * @typedef {Record<string, Profile>} Profiles
 * @typedef {{file: string, sha256: string, memory_flag: number, buffers: Record<string, number>,
 *   bytes: number, scratch: number, products?: Record<string, object[]>, checked?: string[]}} Twin
 *   the WebAssembly module, and where in its memory each buffer is; `products` are for hosts with a
 *   BLAS library, the export ENTRY/checked of the entries `checked` makes steps that need no undoing
 * @typedef {{tokens: string, size: number, sha256: string}} TokenVocab the file, one more than its
 *   largest id, and its digest
 * @typedef {object} Plan
 * @property {number} version of the format
 * @property {string} generator which wgcc wrote it
 * @property {string} [sha256] of all else in it
 * @property {{name: string, sha256: string, vocab?: string | TokenVocab}} model
 * @property {{features: string[], limits: Record<string, number>}} requires
 * @property {{name: string, bytes: number, role: string}[]} buffers
 * @property {Tensors} tensors
 * @property {Kernel[]} kernels
 * @property {Record<string, Entry>} entries
 * @property {Dispatch[]} [copies] make the f16 copies of weights that products read
 * @property {Profiles} [profiles]
 * @property {Record<string, any>} [optimizer]
 * @property {{sha256: string, seed?: number}} [weights] the file that was built
 * @property {any} [selftest]
 * @property {Twin} [twin]
 * @property {string} [no_twin] why there is none
 * @property {Record<string, string>} [edited] files edited by hand, with the digests of what was built
 * @property {Record<string, number>} memory
 */

/** Memory is counted in words of 32 bits: an element each, or four of one byte. */
export const WORD_BYTES = 4;

/** @param {number[]} shape */
export function elementCount(shape) {
  return shape.reduce((count, size) => count * size, 1);
}

/** @param {Dtype} dtype */
export function elementBytes(dtype) {
  return dtype === 'i8' || dtype === 'u8' || dtype === 'bool' ? 1 : WORD_BYTES;
}

/** @param {{dtype: Dtype, shape: number[]}} tensor */
export function wordCount({ dtype, shape }) {
  return Math.ceil((elementBytes(dtype) * elementCount(shape)) / WORD_BYTES);
}

/** In memory, always whole words. @param {Tensor} tensor */
export function bytesOf(tensor) {
  return WORD_BYTES * wordCount(tensor);
}

/** @param {Tensor[]} tensors */
export function totalBytes(tensors) {
  return tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
}

/** @param {Tensor} tensor */
export function isFloat(tensor) {
  return tensor.dtype === 'f32' || tensor.dtype === 'f16';
}

/** Whether a tensor outlives a call and is saved in checkpoints. @param {Tensor} tensor */
export function isPersistent(tensor) {
  return tensor.role === 'param' || tensor.role === 'state';
}

/** Whether an output is one float, such as a loss. @param {Tensor} tensor */
export function isScalar(tensor) {
  return isFloat(tensor) && elementCount(tensor.shape) === 1;
}

/** @param {Plan} plan @param {string} entryName @returns {Tensor[]} */
export function inputTensors(plan, entryName) {
  return Object.values(plan.entries[entryName].inputs).map(id => plan.tensors[id]);
}

/**
 * The dispatches of an entry under a profile; without replacements, those of the plan.
 * @param {Plan} plan @param {string} entryName @param {Profile} profile @returns {Dispatch[]}
 */
export function dispatchesOf(plan, entryName, profile) {
  const dispatches = [...plan.entries[entryName].dispatches];
  for (const { dispatch, kernel, grid } of ownOf(profile, entryName) ?? [])
    dispatches[dispatch] = { ...dispatches[dispatch], kernel, grid };
  return dispatches;
}
