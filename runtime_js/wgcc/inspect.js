// Loaded to look inside a model on the GPU: the self-test that its bundle holds, where a NaN came from, times per kernel.

import { bytesOf, fail, isFloat, isLasting, ownOf, product } from '../wgcc.js';
import { namedWords } from './draw.js';

/** @import { Command, Inside, Named, Plan, Values } from '../wgcc.js' */

// ---- the self-test that every bundle holds

/**
 * How far each output is off, relative to 1 + |expected|. The model is reset before and after it.
 * @param {any} model @returns {Promise<{entry: string, output: string, error: number, tolerance: number}[]>}
 */
export async function selftest(model) {
  const { plan } = model,
    { seed, entries } = plan.selftest ?? { entries: {} },
    results = [];
  for (const entry in entries) {
    const { inputs, outputs, tolerance, changes } = entries[entry],
      /** @type {Record<string, number>} */ worst = Object.create(null);
    await model.reset(undefined, { own: true });
    const before = changes && (await lasting(model));
    for (const [step, expected] of outputs.entries()) {
      /** @type {any} */
      const batch = {};
      for (const port in inputs) batch[port] = drawn(plan, plan.entries[entry].inputs[port], inputs[port], seed, step);
      const found = await model.call(entry, batch);
      for (const port in expected) worst[port] = Math.max(worst[port] ?? 0, off(found[port], expected[port]));
    }
    for (const output in worst) results.push({ entry, output, error: worst[output], tolerance });
    if (changes) {
      const after = await lasting(model),
        errors = Object.entries(changes.tensors).map(([name, expected]) => ({
          entry,
          output: `change of ${name}`,
          error: changeError(before[name], after[name], expected),
          tolerance: changes.tolerance,
        }));
      results.push(...errors.sort((a, b) => b.error - a.error).slice(0, 1));
    }
  }
  await model.reset();
  return results;
}

/** @param {any} model @returns {Promise<any>} */
const lasting = async model => ({ ...(await model.params()), ...(await model.state()) });

/**
 * How far the change of a tensor is off, relative to its size: mean, mean magnitude, and elements from first to last.
 * @param {ArrayLike<any>} before @param {ArrayLike<any>} after @param {any} expected
 */
function changeError(before, after, { mean, size, at, scale }) {
  const change = Array.from(after, (value, i) => value - before[i]),
    count = change.length,
    place = (/** @type {number} */ k) => Math.floor((k * (count - 1)) / Math.max(1, at.length - 1));
  const errors = [
    change.reduce((a, b) => a + b, 0) / count - mean,
    change.reduce((a, b) => a + Math.abs(b), 0) / count - size,
    ...at.map((/** @type {number} */ wanted, /** @type {number} */ k) => change[place(k)] - wanted),
  ].map(error => Math.abs(error) / scale);
  return errors.some(Number.isNaN) ? Number.MAX_VALUE : Math.max(...errors);
}

/** Refuses a model whose kernels compute something else. @param {any} model */
export async function verify(model) {
  const bad = (await selftest(model)).find(({ error, tolerance }) => !(error <= tolerance));
  if (bad)
    fail('selftest', `${bad.entry}.${bad.output}`, `is off by ${bad.error}, more than ${bad.tolerance}, on this GPU`);
}

/**
 * The input that the compiler drew, as wgcc_runtime/drawn.py does.
 * @param {Plan} plan @param {string} id @param {{kind: string, low: number, high: number}} draw @param {number} seed
 * @param {number} step
 */
function drawn({ tensors }, id, { kind, low, high }, seed, step) {
  const words = namedWords(seed, id, product(tensors[id].shape), step);
  return kind == 'uniform'
    ? Float32Array.from(words, word => low + (word >>> 8) * 2 ** -24 * (high - low))
    : Array.from(words, word => low + (word % (high - low + 1)));
}

/**
 * Sums are judged against the sum of magnitudes, because terms of both signs cancel.
 * @param {Values} values @param {{sum: number, abs: number, first: number[]}} expected
 */
function off(values, { sum, abs, first }) {
  const list = Array.from(values),
    total = list.reduce((a, b) => a + b, 0),
    size = list.reduce((a, b) => a + Math.abs(b), 0);
  const errors = [
    Math.abs(total - sum) / (1 + abs),
    Math.abs(size - abs) / (1 + abs),
    ...first.map((wanted, i) => Math.abs(list[i] - wanted) / (1 + Math.abs(wanted))),
  ];
  // NaN compares as smaller than everything, which would pass; JSON has no infinity.
  return errors.some(Number.isNaN) ? Number.MAX_VALUE : Math.max(...errors);
}

// ---- where a NaN came from

/**
 * After a submit that made a NaN and was undone: makes its calls one by one, and says which of them does it.
 * @param {Inside} inside @param {string} key @param {Named[]} batches @param {any[]} saved @param {string} [output]
 * @param {(n: number) => void} [stands]
 */
export async function undo(inside, key, batches, saved, output, stands) {
  let where = '; there was no memory to undo the step: restore the last checkpoint';
  if (saved[0] && batches.length > 1) {
    for (const batch of batches) {
      await inside.run(key, [batch], output ? [output] : []);
      stands?.(1);
    }
    // All went well now; whoever asked for them counts them all.
    return stands?.(-batches.length);
  }
  if (saved[0]) {
    where = `${await blame(inside, key)}; the model is as it was before that step`;
    await inside.back(saved);
  }
  const step = (ownOf(inside.model.progress.steps, key) ?? 0) + batches.length;
  fail('nan', key, `step ${step}: ${output ? `\`${output}\`` : 'a parameter or state'} is not finite${where}`);
}

/**
 * Runs an entry kernel by kernel, on the inputs that are in place; names the first that writes a NaN or infinity.
 * @param {Inside} inside @param {string} key
 */
async function blame({ model, submit, pass, read, dispatchesOf, now }, key) {
  const { plan } = model,
    { buffers, commands } = now(),
    { tensors, entries, kernels } = /** @type {Plan} */ (plan),
    outputs = Object.values(entries[key].outputs),
    named = Object.keys(tensors).filter(id => isLasting(tensors[id]) || outputs.includes(id));
  await submit(4, encoder =>
    plan.buffers.forEach((/** @type {any} */ { role }, /** @type {number} */ i) => {
      if (/temp|grads|output/.test(role)) encoder.clearBuffer(buffers[i]);
    }),
  );
  for (const id of [...Object.keys(tensors).filter(id => isLasting(tensors[id])), ...Object.values(entries[key].inputs)]) {
    const { buffer, offset } = tensors[id];
    if (
      isFloat(tensors[id]) &&
      (await read(buffer, offset, bytesOf(tensors[id]))).some(word => (~word & 0x7f800000) == 0)
    )
      return `; \`${id}\` was not finite before the step`;
  }
  for (const [i, { kernel, bindings, label, at }] of dispatchesOf(key).entries()) {
    await submit(4, encoder => pass(encoder, [commands[key][0][i]]));
    for (const [j, { buffer, offset, size }] of bindings.entries()) {
      if (kernels[kernel].access[j] == 'read') continue;
      // Infinities, and the NaNs that arithmetic makes; other patterns may be small negative integers.
      const place = (await read(buffer, offset, size)).findIndex(word => (word & 0x7fbfffff) == 0x7f800000) * 4 + offset;
      if (place < offset) continue;
      const id = named.find(id => {
        const tensor = tensors[id];
        return tensor.buffer == buffer && place >= tensor.offset && place < tensor.offset + bytesOf(tensor);
      });
      return `; it first appears in \`${id ?? label}\` (kernel ${kernels[kernel].name}, ${at})`;
    }
  }
  return '';
}

// ---- times

/**
 * Median milliseconds of each kernel of an entry, by GPU timestamps where the adapter has them.
 * @param {Inside} inside @param {string} [key] @param {number} [repeat]
 */
export async function profile(inside, key = 'train', repeat = 5) {
  const { model, dispatchesOf, readAll, writeAll, now } = inside,
    { plan, device } = model;
  if (!Object.hasOwn(plan.entries, key)) fail('name', key, `is no entry; there are: ${Object.keys(plan.entries)}`);
  const words = await readAll(() => true),
    isStamped = device.features.has('timestamp-query'),
    ms = await (isStamped ? byTimestamps : bySubmits)(inside, now().commands[key][0], repeat);
  await writeAll(words);
  const rows = dispatchesOf(key).map(({ kernel, label = '', at = '' }, i) => ({
    kernel: plan.kernels[kernel].name,
    label,
    at,
    ms: ms[i],
  }));
  return { entry: key, method: isStamped ? 'timestamps' : 'submits', rows };
}

/** @param {Inside} inside @param {Command[]} commands @param {number} repeat */
async function byTimestamps({ model: { device }, submit, pass }, commands, repeat) {
  const count = 2 * commands.length,
    querySet = device.createQuerySet({ type: 'timestamp', count }),
    resolved = device.createBuffer({ size: 8 * count, usage: 0x204 }), // QUERY_RESOLVE | COPY_SRC
    runs = /** @type {BigUint64Array[]} */ ([]);
  // The first run compiles on some adapters, so it is not counted.
  for (let i = 0; i <= repeat; i++) {
    const words = await submit(8 * count, (encoder, to) => {
      commands.forEach((command, j) =>
        pass(encoder, [command], {
          timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * j, endOfPassWriteIndex: 2 * j + 1 },
        }),
      );
      encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, to, 0, 8 * count);
    });
    runs.push(new BigUint64Array(words.buffer));
  }
  resolved.destroy();
  querySet.destroy();
  return commands.map((_, j) => median(runs.slice(1).map(ticks => Number(ticks[2 * j + 1] - ticks[2 * j]) / 1e6)));
}

/** One submit per kernel, less an empty submit. @param {Inside} inside @param {Command[]} commands @param {number} repeat */
async function bySubmits({ submit, pass }, commands, repeat) {
  const time = async (/** @type {Command[]} */ list) => {
    const all = [];
    for (let i = 0; i <= repeat; i++) {
      const start = performance.now();
      await submit(4, encoder => pass(encoder, list));
      all.push(performance.now() - start);
    }
    return median(all.slice(1));
  };
  const nothing = await time([]),
    found = [];
  for (const command of commands) found.push(Math.max(0, (await time([command])) - nothing));
  return found;
}

/** @param {number[]} list */
const median = list => list.sort((a, b) => a - b)[list.length >> 1];
