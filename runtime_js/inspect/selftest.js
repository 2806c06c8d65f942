// The self-test in every bundle: outputs that the compiler recorded, for inputs drawn from a seed.

import { fail } from '../core/errors.js';
import { loadDraw } from '../core/parts.js';
import { elementCount } from '../core/plan.js';
import { sha256Hex } from '../core/seal.js';

/**
 * @typedef {{entry: string, output: string, error: number, tolerance: number}} Result
 * @typedef {{kind: string, low: number, high: number}} InputDraw
 */

/** Element types whose arrays hold elements as Python's do: all but f16. */
const AS_IN_MEMORY = ['f32', 'i32', 'u32', 'i8', 'u8', 'bool'];

/** Refuses a model whose kernels compute something else. @param {any} model */
export async function verify(model) {
  const results = await selftest(model);
  const bad = results.find(({ error, tolerance }) => !(error <= tolerance));
  if (!bad) return;
  const text = `is off by ${bad.error}, more than ${bad.tolerance}, on this GPU`;
  fail('selftest', `${bad.entry}.${bad.output}`, text);
}

/**
 * The error of each output, relative to 1 + |expected|. The model is reset before and after it.
 * @param {any} model @returns {Promise<Result[]>}
 */
export async function selftest(model) {
  const entries = model.plan.selftest?.entries ?? {};
  const results = [];
  for (const entry of Object.keys(entries)) results.push(...(await testEntry(model, entry)));
  await model.reset();
  return results;
}

/** @param {any} model @param {string} entry @returns {Promise<Result[]>} */
async function testEntry(model, entry) {
  const { tolerance, changes, twin } = model.plan.selftest.entries[entry];
  await model.reset(undefined, { own: true });
  const before = changes && (await persistentValues(model));
  const { worst, arrays } = await outputErrors(model, entry);
  const results = Object.entries(worst).map(([output, error]) => ({
    entry,
    output,
    error,
    tolerance,
  }));
  if (twin && model.adapter.kind === 'wasm') {
    const differs = (await sha256Hex(await new Blob(arrays).arrayBuffer())) !== twin;
    results.push({ entry, output: 'bits', error: Number(differs), tolerance: 0 });
  }
  if (changes) {
    const after = await persistentValues(model);
    const errors = Object.entries(changes.tensors).map(([name, expected]) => ({
      entry,
      output: `change of ${name}`,
      error: changeError(before[name], after[name], expected),
      tolerance: changes.tolerance,
    }));
    // Of many parameters, the worst is enough.
    results.push(...errors.sort((a, b) => b.error - a.error).slice(0, 1));
  }
  return results;
}

/**
 * The largest error of each output over all steps, and the arrays of all outputs.
 * @param {any} model @param {string} entry
 */
async function outputErrors({ plan, call }, entry) {
  const { seed, entries } = plan.selftest;
  const { inputs, outputs } = entries[entry];
  const worst = /** @type {Record<string, number>} */ (Object.create(null));
  const arrays = [];
  const { namedWords } = await loadDraw();
  for (const [step, expected] of outputs.entries()) {
    /** @type {Record<string, any>} */
    const batch = {};
    for (const [port, draw] of Object.entries(inputs)) {
      const id = plan.entries[entry].inputs[port];
      const words = namedWords(seed, id, elementCount(plan.tensors[id].shape), step);
      batch[port] = drawInput(words, draw);
    }
    const found = await call(entry, batch);
    for (const port of Object.keys(expected))
      worst[port] = Math.max(worst[port] ?? 0, outputError(found[port], expected[port]));
    for (const port of Object.keys(expected).sort()) {
      const { dtype } = plan.tensors[plan.entries[entry].outputs[port]];
      if (AS_IN_MEMORY.includes(dtype)) arrays.push(found[port]);
    }
  }
  return { worst, arrays };
}

/** @param {any} model @returns {Promise<Record<string, ArrayLike<number>>>} */
async function persistentValues(model) {
  return { ...(await model.params()), ...(await model.state()) };
}

/**
 * The input that the compiler drew, as drawn.py does, from words of its seed.
 * @param {Uint32Array} words @param {InputDraw} draw
 */
function drawInput(words, { kind, low, high }) {
  return kind === 'uniform'
    ? Float32Array.from(words, word => low + (word >>> 8) * 2 ** -24 * (high - low))
    : Array.from(words, word => low + (word % (high - low + 1)));
}

/**
 * Errors of sums are relative to the sum of magnitudes, because terms of both signs cancel.
 * @param {ArrayLike<number>} values @param {{sum: number, abs: number, first: number[]}} expected
 */
function outputError(values, { sum, abs, first }) {
  const list = Array.from(values);
  return largest([
    (total(list) - sum) / (1 + abs),
    (total(list.map(Math.abs)) - abs) / (1 + abs),
    ...first.map((wanted, i) => (list[i] - wanted) / (1 + Math.abs(wanted))),
  ]);
}

/**
 * The error of a tensor's change, relative to its size: of the mean, the mean magnitude, and some
 * elements from first to last.
 * @param {ArrayLike<number>} before @param {ArrayLike<number>} after @param {any} expected
 */
function changeError(before, after, { mean, size, at, scale }) {
  const change = Array.from(after, (value, i) => value - before[i]);
  const count = change.length;
  const place = (/** @type {number} */ k) =>
    Math.floor((k * (count - 1)) / Math.max(1, at.length - 1));
  const errors = [
    total(change) / count - mean,
    total(change.map(Math.abs)) / count - size,
    ...at.map((/** @type {number} */ wanted, /** @type {number} */ k) => change[place(k)] - wanted),
  ];
  return largest(errors.map(error => error / scale));
}

/** @param {number[]} list */
function total(list) {
  return list.reduce((sum, value) => sum + value, 0);
}

/** @param {number[]} errors */
function largest(errors) {
  // Comparisons with NaN are false, so it would pass; JSON has no infinity.
  if (errors.some(Number.isNaN)) return Number.MAX_VALUE;
  return Math.max(...errors.map(Math.abs));
}
