// Errors for wrong arguments. The core found that something is wrong; every function here throws an
// error that says what.

import { convert, hasShape, listOf, rangeOf } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { elementCount, isFloat } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { didYouMean } from './spelling.js';

/** @import { Plan, Range, Rows, Tensor } from '../core/plan.js' */
/** @typedef {{port: string, size?: number, rows: number}} Column of a data set */

/**
 * The inputs of a call.
 * @param {Plan} plan @param {string} entryName @param {any} batch @returns {never}
 */
export function refuseInputs(plan, entryName, batch) {
  checkNames(plan, entryName, batch);
  const { inputs, ranges, rows } = plan.entries[entryName];
  for (const [port, id] of Object.entries(inputs)) {
    const field = `${entryName}.${port}`;
    const anyRows = Boolean(rows?.outputs) && rows?.inputs.includes(port);
    checkShape(batch[port], plan.tensors[id], field, 'shape', anyRows);
    checkNumbers(batch[port], plan.tensors[id], field, ownOf(ranges, port));
  }
  return fail('data', entryName, 'does not take these inputs');
}

/** The entries that `load` compiles. @param {Plan} plan @param {any} names @returns {never} */
export function refuseEntries({ entries }, names) {
  const there = `there are: ${Object.keys(entries)}`;
  if (!Array.isArray(names)) fail('name', 'entries', `is a list of names; ${there}`);
  const unknown = names.find((/** @type {any} */ name) => !Object.hasOwn(entries, name));
  return fail('name', `${unknown}`, `is not an entry; ${there}`);
}

/**
 * A value for a tensor by name: its type, its shape, or one of its numbers is wrong.
 * @param {any} value @param {Tensor} tensor @param {string} name @returns {never}
 */
export function refuseValue(value, tensor, name) {
  checkShape(value, tensor, name, 'weights');
  checkNumbers(value, tensor, name);
  return fail('weights', name, 'does not take these values');
}

/**
 * Whole data sets.
 * @param {Plan} plan @param {string} entryName @param {any} data
 * @param {boolean} hasEnd whether the number of steps is given
 * @returns {never}
 */
export function refuseRows(plan, entryName, data, hasEnd) {
  if (!hasEnd) fail('data', 'steps', 'is missing: arrays have no end');
  checkNames(plan, entryName, data);
  const columns = Object.keys(plan.entries[entryName].inputs).map(port =>
    columnOf(plan, entryName, port, data[port]),
  );
  const longer = columns.findLast(({ size, rows }) => size && rows !== size);
  const { size: batch = 0, rows: count = 1 } = longer ?? {};
  for (const { port, size, rows } of columns)
    if (rows !== (size === batch ? count : (size ?? 1)))
      fail('shape', port, `has ${rows} rows, another input ${count}`);
  const { rows } = plan.entries[entryName];
  return fail(
    'shape',
    entryName,
    `has ${count} rows, fewer than the batch of ${batch}. Give more rows (rows may be repeated), ` +
      `or make the batch smaller: ${advice(rows, count)}`,
  );
}

/**
 * Numbers of rows that a call cannot have.
 * @param {string} entryName @param {Rows} rows @param {number[]} counts of its inputs
 * @returns {never}
 */
export function refuseCounts(entryName, rows, counts) {
  const [count] = counts;
  const other = counts.findIndex(found => found !== count);
  if (other > 0)
    fail(
      'shape',
      `${entryName}.${rows.inputs[other]}`,
      `has ${counts[other]} rows, another input ${count}`,
    );
  const field = `${entryName}.${rows.inputs[0]}`;
  if (!count) fail('shape', field, 'has no rows');
  return fail(
    'shape',
    field,
    `has ${count} rows, not ${rows.count}, and ${entryName} cannot run on other numbers of rows: ` +
      `${rows.why}. Build it for ${count}: ${advice(rows, count)}`,
  );
}

/** How to build a bundle for another number of rows. @param {Rows | undefined} rows @param {number} count */
function advice(rows, count) {
  return rows?.dim ? `wgcc build MODEL --set ${rows.dim}=${count}` : 'change the model';
}

/** Numbers that are converted at a time. */
const SLICE = 4096;

/** What `fit` takes beside the data. */
// biome-ignore format: as many as fit into a line
const FIT_OPTIONS = [
  'steps', 'epochs', 'every', 'entry', 'seed', 'resume', 'validation', 'validationEntry',
  'validationEvery', 'signal', 'snapshot', 'recover', 'receipt', 'replay',
];

/**
 * @param {Plan} plan @param {string} entryName @param {Record<string, any>} options of `fit`
 * @param {object} unknown those of them that do not exist
 * @returns {never}
 */
export function refuseFit({ entries }, entryName, options, unknown) {
  refuseOptions('fit', unknown, FIT_OPTIONS);
  checkEntryName(entries, entryName);
  for (const name of ['steps', 'epochs', 'every', 'validationEvery']) {
    const count = options[name] ?? 1;
    if (!(Number.isInteger(count) && count > 0))
      fail('range', name, `is a whole number above 0, not ${count}`);
  }
  const { seed = 0, steps, epochs } = options;
  if (seed >>> 0 !== seed)
    fail('range', 'seed', `is a whole number from 0 to 4294967295, not ${seed}`);
  if (epochs != null)
    fail(
      'data',
      'epochs',
      steps == null
        ? 'has no meaning: a function gives batches without end, so give `steps`'
        : 'and `steps` exclude each other',
    );
  return fail(
    'name',
    entryName,
    'does not train: no parameter changes by a gradient, or no loss to watch is returned',
  );
}

/**
 * An entry for the option `validation` that does not exist.
 * @param {Plan} plan @param {string} entryName @returns {never}
 */
export function refuseValidation({ entries }, entryName) {
  const known = Object.keys(entries).join(', ');
  const text = `is not an entry; name one for the validation, \`validationEntry\`, of: ${known}`;
  return fail('name', entryName, text);
}

/** @param {object} options of `load` @param {string[]} known @returns {never} */
export function refuseLoad(options, known) {
  const unknown = Object.entries(options).filter(([name]) => !known.includes(name));
  refuseOptions('load', Object.fromEntries(unknown), known);
  return fail('name', 'load', 'does not take these options');
}

/**
 * @param {string} method @param {object} unknown options of it that do not exist
 * @param {string[]} known those that do
 */
export function refuseOptions(method, unknown, known) {
  for (const name of Object.keys(unknown))
    fail('name', name, `is not an option of ${method}${didYouMean(name, known)}`);
}

/** @param {Plan['entries']} entries @param {string} entryName */
function checkEntryName(entries, entryName) {
  if (!Object.hasOwn(entries, entryName))
    fail('name', entryName, `is not an entry${didYouMean(entryName, Object.keys(entries))}`);
}

/**
 * Every input must be present, and no other.
 * @param {Plan} plan @param {string} entryName @param {any} batch
 */
function checkNames({ entries }, entryName, batch) {
  checkEntryName(entries, entryName);
  const { inputs } = entries[entryName];
  if (Object(batch) !== batch) fail('data', entryName, 'takes an object of arrays');
  for (const port of Object.keys(batch))
    if (!Object.hasOwn(inputs, port))
      fail('name', port, `is not an input of ${entryName}${didYouMean(port, Object.keys(inputs))}`);
  for (const port of Object.keys(inputs))
    if (isMissing(batch, port)) fail('name', port, `is missing: ${entryName} needs it`);
}

/**
 * Members that every object inherits, such as `toString`, are not inputs.
 * @param {any} batch @param {string} port
 */
function isMissing(batch, port) {
  const inherited = /** @type {any} */ (Object.prototype)[port];
  return batch[port] == null || batch[port] === inherited;
}

/**
 * @param {any} value @param {Tensor} tensor @param {string} field
 * @param {string} code of a wrong shape
 * @param {boolean} [anyRows] the number of rows is not what is wrong with the shape
 */
function checkShape(value, tensor, field, code, anyRows) {
  const list = checkType(value, tensor, field);
  if (hasShape(value, list, tensor)) return;
  const given = value.shape ?? [list.length];
  const free = anyRows && value.shape ? [given[0], ...tensor.shape.slice(1)] : tensor.shape;
  const wanted = `${free}` === `${given}` ? tensor.shape : free;
  fail(code, field, `has shape [${given}], not [${wanted}]`);
}

/** @param {any} value @param {Tensor} tensor @param {string} field */
function checkType(value, tensor, field) {
  return listOf(value, tensor) ?? fail('dtype', field, `is not an array of ${tensor.dtype}`);
}

/**
 * @param {any} value @param {Tensor} tensor @param {string} field
 * @param {Range | [number, number]} [allowed]
 */
function checkNumbers(value, tensor, field, allowed) {
  const { dtype } = tensor;
  const list = checkType(value, tensor, field);
  for (let i = firstWrongSlice(list, tensor, allowed); i < list.length; i++) {
    if (convert([list[i]], tensor, allowed)) continue;
    const number = Number(list[i]);
    const found = `holds ${number} at ${i}, `;
    const remedy =
      tensor.role === 'input' ? `; where that is meant, declare the input as \`${dtype}?\`` : '';
    if (isFloat(tensor)) fail('not-finite', field, `${found}not a finite ${dtype}${remedy}`);
    if (!Number.isInteger(number)) fail('dtype', field, `${found}no ${dtype}`);
    fail('range', field, `${found}not within ${allowed ? within(list, rangeOf(allowed)) : dtype}`);
  }
}

/**
 * Where a part of a list starts that has a wrong number: single numbers are slow to convert.
 * @param {any} list @param {Tensor} tensor @param {Range | [number, number]} [allowed]
 */
function firstWrongSlice(list, tensor, allowed) {
  for (let from = 0; from < list.length; from += SLICE) {
    const part = list.subarray ? list.subarray(from, from + SLICE) : list.slice(from, from + SLICE);
    if (!convert(part, tensor, allowed)) return from;
  }
  return list.length;
}

/**
 * The range, with a hint if the numbers go from 1 to N where 0 to N - 1 is expected.
 * @param {ArrayLike<any>} list @param {Range} range
 */
function within(list, { low, high, ignore }) {
  const also = ignore === undefined ? '' : ` (or ${ignore})`;
  let least = Infinity;
  let most = -Infinity;
  for (const number of Array.from(list, Number).filter(number => number !== ignore)) {
    least = Math.min(least, number);
    most = Math.max(most, number);
  }
  const isShifted = low === 0 && high > 0 && least === 1 && most === high + 1;
  const hint = isShifted ? '; they seem to count from 1, but wgcc counts from 0: subtract 1' : '';
  return `${low} to ${high}${also}${hint}`;
}

/**
 * @param {Plan} plan @param {string} entryName @param {string} port @param {any} value
 * @returns {Column}
 */
function columnOf(plan, entryName, port, value) {
  const { inputs, ranges } = plan.entries[entryName];
  const tensor = plan.tensors[inputs[port]];
  const field = `${entryName}.${port}`;
  checkNumbers(value, tensor, field, ownOf(ranges, port));
  const { length } = checkType(value, tensor, field);
  const [size, ...row] = tensor.shape;
  const rows = length / elementCount(row);
  if (!Number.isInteger(rows) || (rows !== 1 && !size))
    fail(
      'shape',
      field,
      `has ${length} numbers; the model takes [${tensor.shape}], or the same with more rows`,
    );
  return { port, size, rows };
}
