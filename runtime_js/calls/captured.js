// `model.captured()`: values inside an entry that its bundle was built to show. Mirrors captured.py.

import { fromWords } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { elementCount, wordCount } from '../core/plan.js';
import { filterRecord, mapRecord, ownOf } from '../core/records.js';

/** @import { Values } from '../core/arrays.js' */
/** @import { Capture, Plan, Tensor } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */
/**
 * @typedef {object} Statistics of a value; the first four are those of its finite elements
 * @property {number[]} shape of the value
 * @property {number} mean
 * @property {number} deviation
 * @property {number} min
 * @property {number} max
 * @property {number} zeros how many
 * @property {number} nan how many
 * @property {number} infinite how many
 * @property {Uint32Array} histogram finite elements in 32 bins of equal width from `min` to `max`
 */
/** @typedef {Record<string, Values | Statistics>} Captured by name */

const BINS = 32;

/**
 * What the last call, or the last one of `entry`, captured; read now.
 * @param {Session} session @param {{entry?: string, names?: string[]}} [options]
 * @returns {Promise<Captured>}
 */
export function captured(session, { entry, names } = {}) {
  return session.locked(async () => {
    const { captures, plan } = session;
    const entryName = entry ?? [...captures.keys()].pop();
    if (!entryName || !captures.has(entryName)) return refuseEntry(plan, entryName);
    const records = plan.entries[entryName].captures ?? {};
    for (const name of names ?? [])
      if (!Object.hasOwn(records, name))
        fail('captured', name, `is not captured by ${entryName}: ${Object.keys(records)}`);
    const joined = captures.get(entryName);
    const wanted = filterRecord(records, (record, name) => {
      const isWanted = !names || names.includes(name);
      if (!isWanted || !joined || ownOf(joined, name) || isStored(plan, record)) return isWanted;
      if (!names) return false;
      const rows = plan.entries[entryName].rows?.count;
      return fail('captured', name, `cannot be joined from parts: call with exactly ${rows} rows`);
    });
    const now = filterRecord(wanted, (_, name) => !joined || !ownOf(joined, name));
    const read = await readCaptures(session, now);
    return mapRecord(wanted, (_, name) => ownOf(read, name) ?? joined?.[name]);
  }, true);
}

/** @param {Plan} plan @param {string} [entryName] @returns {never} */
function refuseEntry({ entries }, entryName) {
  const able = Object.keys(entries).filter(name => entries[name].captures);
  const why = able.length
    ? `was not called, or its call failed; those that capture are ${able}`
    : 'captures nothing: build with --capture, or use capture(x, "name")';
  return fail('captured', entryName ?? 'the model', why);
}

/** @param {Plan} plan @param {Capture} record */
function isStored({ tensors }, { tensor }) {
  return tensor !== undefined && tensors[tensor].role !== 'output';
}

/**
 * @param {Session} session @param {Record<string, Capture>} records @returns {Promise<Captured>}
 */
async function readCaptures(session, records) {
  const { tensors } = session.plan;
  const ids = Object.values(records).flatMap(({ tensor, numbers, counts }) =>
    [tensor, numbers, counts].filter(id => id !== undefined),
  );
  const wanted = filterRecord(tensors, (_, id) => ids.includes(id));
  const words = mapRecord(wanted, tensor => new Uint32Array(wordCount(tensor)));
  await session.readPieces(wanted, (id, piece, at) => words[id].set(piece, at));
  const valuesOf = (/** @type {string} */ id) => fromWords(words[id], tensors[id]);
  return mapRecord(records, ({ tensor, numbers = '', counts = '', shape = [] }) =>
    tensor ? valuesOf(tensor) : statisticsOf(shape, valuesOf(numbers), valuesOf(counts)),
  );
}

/** @param {number[]} shape @param {Values} numbers @param {Values} counts @returns {Statistics} */
function statisticsOf(shape, numbers, counts) {
  const [mean, deviation, min, max] = numbers;
  const [zeros, nan, infinite] = counts;
  const histogram = /** @type {Uint32Array} */ (counts.slice(-BINS));
  return { shape, mean, deviation, min, max, zeros, nan, infinite, histogram };
}

/** Captures of a call in parts: each is read after its part. */
export class JoinedCaptures {
  /** @type {Captured[]} */
  #parts = [];

  /** @param {Session} session @param {string} entryName */
  constructor(session, entryName) {
    this.session = session;
    this.entryName = entryName;
    const { captures = {} } = session.plan.entries[entryName];
    // A validation calls whatever has `call`.
    this.wanted = filterRecord(
      captures,
      ({ rows }) => rows !== undefined && session.captures !== undefined,
    );
  }

  async add() {
    const { session, wanted } = this;
    if (Object.keys(wanted).length)
      this.#parts.push(await session.locked(() => readCaptures(session, wanted)));
  }

  /** Joins the first so many rows. @param {number} count */
  finish(count) {
    const { session, entryName } = this;
    const { captures, rows } = session.plan.entries[entryName];
    if (!captures || !rows || !session.captures) return;
    const joined = mapRecord(this.wanted, ({ rows: form }, name) => {
      const parts = this.#parts.map(part => /** @type {Values} */ (part[name]));
      return form === 'same' ? parts[0] : joinRows(parts, count / rows.count);
    });
    session.captures.set(entryName, joined);
  }
}

/** @param {Values[]} parts @param {number} times how many of the first part there are @returns {Values} */
function joinRows(parts, times) {
  const [first] = parts;
  const [leading, ...rest] = first.shape;
  const type = /** @type {Float32ArrayConstructor} */ (first.constructor);
  const whole = new type(parts.length * first.length);
  parts.forEach((part, i) => {
    whole.set(part, i * first.length);
  });
  const shape = [leading * times, ...rest];
  return Object.assign(whole.slice(0, elementCount(shape)), { shape });
}
