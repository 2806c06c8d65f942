// Which columns of a table feed which input of an entry. Mirrors matching.py.

import DATA_WORDS from '../../runtime_py/wgcc_runtime/tables/data_words.json' with { type: 'json' };
import { byCodePoints, firstOf } from './classes.js';
import { firstName } from './columns.js';
import { findSources, makeFeatures, numberSource } from './features.js';
import { forEachItem } from './pause.js';
import { quotedNames, shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { EntryForm, Port } from './form.js' */
/** @import { FeatureSource } from './features.js' */
/** @import { Options } from './options.js' */

const TARGET_NAMES = DATA_WORDS.target;

/** Columns by input, and the input that is the target, if the entry has one. */
export class Matching {
  /** @type {Map<string, Column[]>} */
  columns = new Map();
  /** Of the inputs whose columns are features of others. @type {Map<string, FeatureSource[]>} */
  sources = new Map();

  /** @param {string | undefined} target */
  constructor(target) {
    this.target = target;
  }

  /** In file order. */
  used() {
    return [...new Set([...this.columns.values()].flat())].sort((a, b) => a.number - b.number);
  }
}

/**
 * In this order: what the options say, names of inputs, the target, the rest.
 * @param {Table} table @param {EntryForm} entry @param {string | undefined} target
 * @param {Options} options
 */
export async function matchColumns(table, entry, target, options) {
  const matcher = new Matcher(table, entry, target, Boolean(options.encode));
  await matcher.byOptions(options);
  await matcher.byName();
  await matcher.byTarget();
  await matcher.theRest();
  matcher.noteUnused();
  return matcher.found;
}

class Matcher {
  /**
   * @param {Table} table @param {EntryForm} entry @param {string | undefined} target
   * @param {boolean} isEncoding
   */
  constructor(table, entry, target, isEncoding) {
    this.isEncoding = isEncoding;
    this.table = table;
    this.entry = entry;
    this.source = table.source;
    this.left = table.columns.filter(({ kind }) => kind !== 'empty' && kind !== 'index');
    this.found = new Matching(entry.rows.find(name => name === target));
  }

  /** @param {Options} options */
  async byOptions(options) {
    const { target } = this.found;
    if (options.target != null) {
      const input = target ?? this.source.refuse('no-target', { entry: this.entry.name });
      await this.#assign(input, [this.#named(options.target)]);
    }
    const { columns } = options;
    if (columns == null) return;
    if (Array.isArray(columns)) {
      const named = columns.map(name => this.#named(name));
      await this.#assign(this.#oneLeft(this.#open().filter(name => name !== target)), named);
      return;
    }
    for (const [name, names] of Object.entries(columns)) {
      if (!this.entry.rows.includes(name)) {
        const { name: entry, rows: inputs } = this.entry;
        this.source.refuse('no-row-input', { entry, input: name, inputs });
      }
      await this.#assign(
        name,
        names.map(column => this.#named(column)),
      );
    }
  }

  async byName() {
    for (const name of this.#open()) {
      const columns = this.#called(name);
      if (columns.length && fill(columns, this.entry.inputs[name]))
        await this.#assign(name, columns);
    }
  }

  async byTarget() {
    const { target, columns: matched } = this.found;
    if (target === undefined || matched.has(target) || !this.left.length) return;
    const port = this.entry.inputs[target];
    const called = [...TARGET_NAMES, target.toLowerCase()];
    const named = this.left.filter(({ name }) => called.includes(name.toLowerCase()));
    if (named.length === 1 && fill(named, port)) {
      await this.#assign(target, named);
      return;
    }
    const [columns, where] = await this.#byPlace(port);
    this.source.note('target-taken', { input: target, where, columns: quotedNames(columns) });
    await this.#assign(target, columns);
  }

  async theRest() {
    if (!this.#open().length) return;
    const name = this.#oneLeft(this.#open());
    const port = this.entry.inputs[name];
    const raw = this.left;
    const columns = await this.#features(name, raw);
    if (fill(columns, port)) {
      this.#put(name, raw, columns);
      return;
    }
    await this.#checkNumbers(name, columns);
    const values = { input: name, size: port.rowSize };
    if (!columns.length) this.source.refuse('no-columns-left', values);
    this.source.refuse('columns-left', { ...values, ...countedColumns(columns) });
  }

  noteUnused() {
    if (this.left.length) this.source.note('columns-unused', { columns: quotedNames(this.left) });
  }

  /** Inputs that have no columns yet. */
  #open() {
    return this.entry.rows.filter(name => !this.found.columns.has(name));
  }

  /** @param {string} name of an input @param {Column[]} raw columns of the file */
  async #assign(name, raw) {
    this.#refuseTwice(raw);
    const columns = await this.#features(name, raw);
    this.#put(name, raw, columns);
    const port = this.entry.inputs[name];
    if (fill(columns, port)) return;
    await this.#checkNumbers(name, columns);
    const values = { input: name, size: port.rowSize, ...countedColumns(columns) };
    this.source.refuse('column-count', values);
  }

  /** @param {string} name @param {Column[]} raw @param {Column[]} columns */
  #put(name, raw, columns) {
    this.found.columns.set(name, columns);
    this.left = this.left.filter(column => !raw.includes(column));
  }

  /** The columns that an input takes; with `encode` these are features of the file's. @param {string} name @param {Column[]} columns */
  async #features(name, columns) {
    const port = this.entry.inputs[name];
    const isClass = columns.length === 1 && isOneHot(columns[0], port);
    if (!this.isEncoding || !port.isFloat || isClass) return columns;
    if (name === this.found.target) {
      this.found.sources.set(name, columns.map(numberSource));
      return columns;
    }
    const sources = await findSources(this.table, columns);
    this.found.sources.set(name, sources);
    const kept = columns.filter(one => sources.some(({ column }) => column === one.name));
    return makeFeatures(this.table, kept, sources);
  }

  /** A model that is given what it shall predict learns nothing. @param {Column[]} columns */
  #refuseTwice(columns) {
    const used = new Set([...this.found.columns.values()].flat());
    for (const column of columns) {
      if (used.has(column)) this.source.refuse('column-twice', { column: column.name });
      used.add(column);
    }
  }

  /** Refuses names where the input takes numbers. @param {string} name @param {Column[]} columns */
  async #checkNumbers(name, columns) {
    const port = this.entry.inputs[name];
    const odd = columns.find(({ kind }) => kind === 'names');
    if (!odd || port.takesClasses) return;
    const isTarget = name === this.found.target;
    if (columns.length === 1 && isTarget && port.isFloat && port.rowSize > 1)
      await this.#refuseClasses(odd, name, port.rowSize);
    const row = firstName(odd);
    const numbers = columns.filter(({ kind }) => kind === 'numbers').map(column => column.name);
    const values = { column: odd.name, cell: shown(odd.cells[row]), input: name };
    const place = /** @type {const} */ ([this.table.lines[row], odd.number]);
    if (isTarget) this.source.refuse('names-in-target', values, ...place);
    this.source.refuse('names-in-columns', { ...values, numbers }, ...place);
  }

  /** @param {Column} column @param {string} name @param {number} count */
  async #refuseClasses({ name: column, distinct }, name, count) {
    const classes = await firstOf(distinct, byCodePoints);
    const values = { column, count: distinct.size, classes, input: name, most: count };
    this.source.refuse('class-count', values);
  }

  /**
   * The first or last column, whichever alone fits; else the last ones.
   * @param {Port} port @returns {Promise<[Column[], string]>}
   */
  async #byPlace(port) {
    const [first] = this.left;
    const last = this.left[this.left.length - 1];
    const fitsFirst = await fitsClasses(first, port);
    const fitsLast = first === last ? fitsFirst : await fitsClasses(last, port);
    if (fitsFirst && fitsLast && first !== last) {
      const columns = this.left.map(({ name }) => name);
      this.source.refuse('which-target', { input: port.name, columns });
    }
    if (fitsFirst && first !== last) return [[first], 'first column'];
    const columns = port.isFloat && !fitsLast ? this.left.slice(-port.rowSize) : [last];
    return [columns, columns.length === 1 ? 'last column' : 'last columns'];
  }

  /** @param {string} name @returns {Column} */
  #named(name) {
    const { columns } = this.table;
    const column = columns.find(one => one.name === name);
    if (column?.kind === 'empty') this.source.refuse('no-values', { column: name });
    const known = columns.map(one => one.name);
    return column ?? this.source.refuse('no-column', { column: name, columns: known });
  }

  /** The column `x`, or `x0`, `x1`, … by their numbers (also x.0, x_0, x[0]). @param {string} input */
  #called(input) {
    const exact = this.left.filter(({ name }) => name === input);
    if (exact.length) return exact;
    const numberOf = (/** @type {Column} */ { name }) =>
      name.startsWith(input)
        ? /^(?:[._]?([0-9]+)|\[([0-9]+)\])$/.exec(name.slice(input.length))
        : null;
    const indexOf = (/** @type {Column} */ column) => {
      const found = numberOf(column);
      return Number(found?.[1] ?? found?.[2]);
    };
    return this.left.filter(numberOf).sort((a, b) => indexOf(a) - indexOf(b));
  }

  /** @param {string[]} names @returns {string} */
  #oneLeft(names) {
    if (names.length === 1) return names[0];
    if (!names.length) this.source.refuse('no-input-left');
    const columns = this.left.map(({ name }) => name);
    const inputs = names.map(name => `\`${name}\``);
    return this.source.refuse('which-columns', { inputs, columns });
  }
}

/** The columns for an input, as errors tell them. @param {Column[]} columns */
function countedColumns(columns) {
  return { count: columns.length, columns: columns.map(({ name }) => name) };
}

/** Whether the columns hold what a row of the input takes. @param {Column[]} columns @param {Port} port */
function fill(columns, port) {
  if (columns.length === 1 && isOneHot(columns[0], port)) return true;
  if (columns.length !== port.rowSize) return false;
  return port.takesClasses || columns.every(({ kind }) => kind !== 'names');
}

/** A column of C names for a float input with rows of C numbers. @param {Column} column @param {Port} port */
export function isOneHot({ kind, distinct }, port) {
  const canBe = port.isFloat && kind === 'names' && port.rowShape.length === 1 && port.rowSize > 1;
  return canBe && distinct.size === port.rowSize;
}

/** @param {Column} column @param {Port} port */
async function fitsClasses(column, port) {
  if (port.isFloat) return isOneHot(column, port);
  if (!port.takesClasses) return false;
  const most = port.classCount ?? Infinity;
  if (column.kind === 'names') return column.distinct.size <= most;
  const { isWhole, isInside, different, count } = await factsOf(column.values, port);
  const isAllowed = port.allowed !== undefined && isInside;
  return isWhole && different <= most && (isAllowed || different < count);
}

/** @param {Float64Array} values @param {Port} port */
async function factsOf(values, port) {
  const distinct = new Set();
  const facts = { isWhole: true, isInside: true, count: 0 };
  await forEachItem(values, value => {
    if (Number.isNaN(value)) return;
    distinct.add(value);
    facts.count++;
    facts.isWhole &&= Number.isInteger(value);
    facts.isInside &&= port.allows(value);
  });
  return { ...facts, different: distinct.size };
}
