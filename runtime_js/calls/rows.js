// Calls whose inputs are not what their entry takes. If only the number of rows differs, the entry
// runs in parts of as many rows as it takes. Mirrors rows.py.
//
// A last part with fewer rows is filled up with its own rows, again and again. Outputs per row are
// cut to size. Sums over rows then have each row of that part the same number of times, and a few of
// them once more: those are subtracted, found in the same way.

import { listOf } from '../core/arrays.js';
import { isUnusual } from '../core/batches.js';
import { convertInSlices } from '../core/long_arrays.js';
import { loadCheck } from '../core/parts.js';
import { elementCount } from '../core/plan.js';
import { filterRecord, mapRecord, ownOf } from '../core/records.js';
import { JoinedCaptures } from './captured.js';
import { callWith } from './gpu_call.js';

/** @import { Values } from '../core/arrays.js' */
/** @import { Plan, Rows } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */
/** @typedef {Record<string, Values>} Outputs of one call */
/** @typedef {Record<string, Float64Array<ArrayBuffer>>} Sums over rows */
/** @typedef {Pick<Session, 'plan' | 'call'>} Caller */

/**
 * The outputs of a call whose inputs are not what the entry takes.
 * @param {Session} session @param {string} entryName @param {any} inputs
 * @returns {Promise<Outputs>}
 */
export async function runRows(session, entryName, inputs) {
  if (Object.values(Object(inputs)).some(isUnusual)) return callWith(session, entryName, inputs);
  const count = await rowCount(session.plan, entryName, inputs);
  const rows = /** @type {Rows} */ (session.plan.entries[entryName].rows);
  return new Parts(session, entryName, rows, inputs, count).outputs();
}

/**
 * How many rows are given, if that is not the entry's number; any other fault is an error.
 * @param {Plan} plan @param {string} entryName @param {any} inputs
 * @param {boolean} [inBatches] whether rows may mix, if they fill whole batches
 * @returns {Promise<number>}
 */
export async function rowCount(plan, entryName, inputs, inBatches) {
  const { rows, inputs: ports = {} } = ownOf(plan.entries, entryName) ?? {};
  const areKnown = Object.keys(Object(inputs)).every(port => Object.hasOwn(ports, port));
  if (!rows || !areKnown) return (await loadCheck()).refuseInputs(plan, entryName, inputs);
  const counts = rows.inputs.map(port => rowsIn(plan, entryName, port, inputs?.[port]));
  const [count] = counts;
  if (!counts.every(Number.isInteger) || counts.every(found => found === rows.count))
    return (await loadCheck()).refuseInputs(plan, entryName, inputs);
  const canRun = rows.outputs || (inBatches && count % rows.count === 0);
  if (!count || !counts.every(found => found === count) || !canRun)
    return (await loadCheck()).refuseCounts(entryName, rows, counts);
  for (const port of rows.inputs)
    if (!(await isAllowed(plan, entryName, port, inputs[port])))
      return (await loadCheck()).refuseRows(plan, entryName, inputs, true);
  return count;
}

/**
 * The mean of every output over whole batches of an entry whose rows mix.
 * @param {Caller} session @param {string} entryName @param {any} inputs @param {number} count
 * @returns {Promise<Sums>}
 */
export function meanOfBatches(session, entryName, inputs, count) {
  const rows = /** @type {Rows} */ (session.plan.entries[entryName].rows);
  return new Parts(session, entryName, rows, inputs, count).meanOfBatches();
}

/**
 * How many rows a caller gave; NaN if it is no such input.
 * @param {Plan} plan @param {string} entryName @param {string} port @param {any} value
 */
function rowsIn(plan, entryName, port, value) {
  const tensor = plan.tensors[plan.entries[entryName].inputs[port]];
  const row = tensor.shape.slice(1);
  const count = listOf(value, tensor) ? value.length / elementCount(row) : Number.NaN;
  const isShaped = !value?.shape || `${value.shape}` === `${[count, ...row]}`;
  return isShaped ? count : Number.NaN;
}

/**
 * Whether all numbers of an input are allowed.
 * @param {Plan} plan @param {string} entryName @param {string} port @param {any} value
 */
function isAllowed({ entries, tensors }, entryName, port, value) {
  const { inputs, ranges } = entries[entryName];
  const tensor = tensors[inputs[port]];
  const list = listOf(value, tensor);
  return list && convertInSlices(list, tensor, ownOf(ranges, port));
}

/** The calls that all rows take. */
class Parts {
  /**
   * @param {Caller} session @param {string} entryName @param {Rows} rows
   * @param {Record<string, any>} inputs @param {number} count of rows in all
   */
  constructor(session, entryName, rows, inputs, count) {
    this.session = session;
    this.entryName = entryName;
    this.rows = rows;
    this.forms = rows.outputs ?? {};
    this.totals = filterRecord(this.forms, form => form === 'mean' || form === 'sum');
    this.inputs = inputs;
    this.count = count;
  }

  /** @returns {Promise<Outputs>} */
  async outputs() {
    const size = this.rows.count;
    const left = this.count % size;
    /** @type {Outputs[]} */
    const parts = [];
    const joined = new JoinedCaptures(/** @type {Session} */ (this.session), this.entryName);
    for (let start = 0; start + size <= this.count; start += size) {
      parts.push(await this.#call(i => start + i));
      await joined.add();
    }
    const sums = parts.map(part => this.#sums(part));
    if (left) {
      const last = await this.#call(i => this.count - left + (i % left));
      await joined.add();
      parts.push(last);
      sums.push(await this.#sumsOfSome(last, left));
    }
    joined.finish(this.count);
    return mapRecord(this.forms, (_, port) => this.#together(port, parts, sums));
  }

  /** @returns {Promise<Sums>} */
  async meanOfBatches() {
    const size = this.rows.count;
    const batches = this.count / size;
    /** @type {Sums} */
    let sums = {};
    for (let start = 0; start < this.count; start += size)
      sums = mapRecord(await this.#call(i => start + i), (values, port) =>
        Float64Array.from(values, (number, i) => number / batches + (sums[port]?.[i] ?? 0)),
      );
    return sums;
  }

  /** @param {(i: number) => number} rowAt the row that is the i-th @returns {Promise<Outputs>} */
  #call(rowAt) {
    const { inputs, count } = this.rows;
    const part = mapRecord(this.inputs, (value, port) =>
      inputs.includes(port) ? chosenRows(value, value.length / this.count, count, rowAt) : value,
    );
    return this.session.call(this.entryName, part);
  }

  /** Of outputs that are sums or means, over all rows of a part. @param {Outputs} part */
  #sums(part) {
    return mapRecord(this.totals, (form, port) => {
      const factor = form === 'mean' ? this.rows.count : 1;
      return Float64Array.from(part[port], number => factor * number);
    });
  }

  /**
   * Over the first `some` rows of the last part, from a call with them repeated.
   * @param {Outputs} part @param {number} some @returns {Promise<Sums>}
   */
  async #sumsOfSome(part, some) {
    const size = this.rows.count;
    const sums = this.#sums(part);
    const more = size % some;
    const start = this.count - (this.count % size);
    const hasRest = more > 0 && Object.keys(sums).length > 0;
    const rest = hasRest
      ? await this.#sumsOfSome(await this.#call(i => start + (i % more)), more)
      : undefined;
    const times = Math.floor(size / some);
    return mapRecord(sums, (sum, port) =>
      sum.map((number, i) => (number - (rest?.[port][i] ?? 0)) / times),
    );
  }

  /** @param {string} port @param {Outputs[]} parts @param {Sums[]} sums @returns {Values} */
  #together(port, parts, sums) {
    const [first] = parts;
    const { shape } = first[port];
    const form = this.forms[port];
    if (form === 'same') return first[port];
    const type = /** @type {Float32ArrayConstructor} */ (first[port].constructor);
    if (form === 'rows') {
      const length = (this.count * shape[0]) / this.rows.count;
      const row = elementCount(shape.slice(1));
      const joined = new type(parts.length * first[port].length);
      parts.forEach((part, i) => {
        joined.set(part[port], i * part[port].length);
      });
      return Object.assign(joined.slice(0, length * row), { shape: [length, ...shape.slice(1)] });
    }
    const divisor = form === 'mean' ? this.count : 1;
    const total = (/** @type {number} */ i) => sums.reduce((sum, part) => sum + part[port][i], 0);
    return Object.assign(
      type.from(first[port], (_, i) => total(i) / divisor),
      { shape },
    );
  }
}

/**
 * @param {any} list of a caller @param {number} size of a row @param {number} count of rows
 * @param {(i: number) => number} rowAt
 */
function chosenRows(list, size, count, rowAt) {
  if (!(list instanceof Float32Array))
    return Array.from({ length: count * size }, (_, i) => {
      return list[rowAt(Math.floor(i / size)) * size + (i % size)];
    });
  // Images have many elements, and are mostly such arrays.
  const chosen = new Float32Array(count * size);
  for (let i = 0; i < count; i++)
    chosen.set(list.subarray(rowAt(i) * size, (rowAt(i) + 1) * size), i * size);
  return chosen;
}
