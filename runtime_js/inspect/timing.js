// Times per kernel: by GPU timestamps if the adapter has them, else by submits of one kernel.

import { fail } from '../core/errors.js';
import { recordPass } from '../core/machine.js';
import { timesRun } from '../core/repeats.js';

/** @import { Command, Machine } from '../core/machine.js' */
/** @import { Session } from '../core/session.js' */

// As numbers, because Node does not define the names.
const QUERY_RESOLVE = 0x200;
const COPY_SRC = 0x4;
const TICK_BYTES = 8;
const NANOSECONDS_PER_MS = 1e6;

/**
 * Median milliseconds of each kernel of an entry.
 * @param {Session} session @param {string} [entryName] @param {number} [repeat]
 */
export async function profile(session, entryName = 'train', repeat = 5) {
  const { plan, machine } = session;
  if (!Object.hasOwn(plan.entries, entryName))
    fail('name', entryName, `is not an entry; there are: ${Object.keys(plan.entries)}`);
  await machine.compile([entryName]);
  const words = await session.readAll();
  const method = methodFor(machine);
  const ms = await METHODS[method](machine, machine.eachOf(entryName), repeat);
  await session.writeAll(words);
  const times = timesRun(plan.entries[entryName]);
  const rows = machine.dispatches(entryName).map(({ kernel, label = '', at = '' }, i) => ({
    kernel: plan.kernels[kernel].name,
    label,
    at,
    // Of all rounds, if it is in a loop.
    ms: ms[i] * times[i],
    times: times[i],
  }));
  return { entry: entryName, method, rows };
}

/** @param {Machine} machine */
function methodFor({ gpu, adapter }) {
  if (adapter.kind === 'wasm') return 'calls';
  return gpu.features.has('timestamp-query') ? 'timestamps' : 'submits';
}

/** @param {Machine} machine @param {Command[]} commands @param {number} repeat */
async function byTimestamps(machine, commands, repeat) {
  const { gpu } = machine;
  const count = 2 * commands.length;
  const size = TICK_BYTES * count;
  const querySet = gpu.createQuerySet({ type: 'timestamp', count });
  const resolved = gpu.createBuffer({ size, usage: QUERY_RESOLVE | COPY_SRC });
  /** @type {BigUint64Array[]} */
  const runs = [];
  for (let i = 0; i <= repeat; i++) {
    const words = await machine.submit(size, (encoder, readback) => {
      commands.forEach((command, j) => {
        const [first, last] = [2 * j, 2 * j + 1];
        recordPass(encoder, [command], {
          timestampWrites: {
            querySet,
            beginningOfPassWriteIndex: first,
            endOfPassWriteIndex: last,
          },
        });
      });
      encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, readback, 0, size);
    });
    runs.push(new BigUint64Array(words.buffer));
  }
  resolved.destroy();
  querySet.destroy();
  // The first run compiles on some adapters, so it is not counted.
  return commands.map((_, j) =>
    median(
      runs.slice(1).map(ticks => Number(ticks[2 * j + 1] - ticks[2 * j]) / NANOSECONDS_PER_MS),
    ),
  );
}

/**
 * One submit per kernel, less an empty submit.
 * @param {Machine} machine @param {Command[]} commands @param {number} repeat
 */
async function bySubmits(machine, commands, repeat) {
  const empty = await submitTime(machine, [], repeat);
  const times = [];
  for (const command of commands)
    times.push(Math.max(0, (await submitTime(machine, [command], repeat)) - empty));
  return times;
}

/**
 * The twin's thread measures the time itself.
 * @param {any} machine @param {any[]} commands @param {number} repeat
 */
async function byCalls(machine, commands, repeat) {
  /** @type {number[][]} */
  const runs = [];
  for (let i = 0; i <= repeat; i++) runs.push(await machine.measure(commands));
  // In the first, an engine may still compile.
  return commands.map((_, j) => median(runs.slice(1).map(times => times[j])));
}

const METHODS = { timestamps: byTimestamps, submits: bySubmits, calls: byCalls };

/** @param {Machine} machine @param {Command[]} commands @param {number} repeat */
async function submitTime(machine, commands, repeat) {
  const times = [];
  for (let i = 0; i <= repeat; i++) {
    const start = performance.now();
    await machine.finish(encoder => recordPass(encoder, commands));
    times.push(performance.now() - start);
  }
  return median(times.slice(1));
}

/** @param {number[]} list */
function median(list) {
  return list.sort((a, b) => a - b)[list.length >> 1];
}
