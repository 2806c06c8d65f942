// Which columns of a table feed which input of an entry. Mirrors matching.py.

import { byCodePoints, firstOf } from './classes.js';
import { firstName } from './columns.js';
import { forEachItem } from './pause.js';
import { listed, listedNames, pasted, shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { EntryForm, Port } from './form.js' */
/** @import { Options } from './options.js' */

const TARGET_NAMES = ['target', 'label', 'class', 'y', 'species', 'category'];

/** Columns by input, and the input that is the target, if the entry has one. */
export class Matching {
  /** @type {Map<string, Column[]>} */
  columns = new Map();

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
  const matcher = new Matcher(table, entry, target);
  await matcher.byOptions(options);
  await matcher.byName();
  await matcher.byTarget();
  await matcher.theRest();
  matcher.noteUnused();
  return matcher.found;
}

class Matcher {
  /** @param {Table} table @param {EntryForm} entry @param {string | undefined} target */
  constructor(table, entry, target) {
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
      const text = `\`target\` is given, but \`${this.entry.name}\` has no input to learn`;
      await this.#assign(target ?? this.source.refuse(text), [this.#named(options.target)]);
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
        const text = `\`${this.entry.name}\` has no input \`${name}\` with rows`;
        this.source.refuse(`${text}; there are: ${listed(this.entry.rows)}`);
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
    const names = listedNames(columns.map(({ name }) => name));
    this.source.note(`\`${target}\` is taken from the ${where}, ${names}.`);
    await this.#assign(target, columns);
  }

  async theRest() {
    if (!this.#open().length) return;
    const name = this.#oneLeft(this.#open());
    const port = this.entry.inputs[name];
    const columns = this.left;
    if (fill(columns, port)) {
      await this.#assign(name, columns);
      return;
    }
    await this.#checkNumbers(name, columns);
    const takes = `\`${name}\` takes ${wantedColumns(port)}`;
    if (!columns.length) this.source.refuse(`${takes}, but none is left for it`);
    const are = columns.length === 1 ? '1 is' : `${columns.length} are`;
    const names = listed(columns.map(column => column.name));
    const text = `${takes}, but ${are} left for it: ${names}. Choose them with --columns`;
    this.source.refuse(text, undefined, undefined, 'columns');
  }

  noteUnused() {
    const names = listedNames(this.left.map(({ name }) => name));
    if (names) this.source.note(`Columns that are not used: ${names}.`);
  }

  /** Inputs that have no columns yet. */
  #open() {
    return this.entry.rows.filter(name => !this.found.columns.has(name));
  }

  /** @param {string} name of an input @param {Column[]} columns */
  async #assign(name, columns) {
    this.#refuseTwice(columns);
    this.found.columns.set(name, columns);
    this.left = this.left.filter(column => !columns.includes(column));
    const port = this.entry.inputs[name];
    if (fill(columns, port)) return;
    await this.#checkNumbers(name, columns);
    const names = listed(columns.map(column => column.name));
    this.source.refuse(`\`${name}\` takes ${wantedColumns(port)}, not ${columns.length}: ${names}`);
  }

  /** A model that is given what it shall predict learns nothing. @param {Column[]} columns */
  #refuseTwice(columns) {
    const used = new Set([...this.found.columns.values()].flat());
    for (const column of columns) {
      if (used.has(column)) this.source.refuse(`the column \`${column.name}\` is given twice`);
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
    const advice = isTarget
      ? 'choose another column with --target NAME'
      : `choose its columns with --columns ${numbers.length ? pasted(numbers) : 'NAMES'}`;
    const holds = `\`${odd.name}\` holds names (${shown(odd.cells[row])})`;
    const text = `${holds}, but \`${name}\` takes numbers: ${advice}`;
    const option = isTarget ? 'target' : 'columns';
    this.source.refuse(text, this.table.lines[row], odd.number, option);
  }

  /** @param {Column} column @param {string} name @param {number} count */
  async #refuseClasses({ name: column, distinct }, name, count) {
    const classes = `${distinct.size} classes (${listed(await firstOf(distinct, byCodePoints))})`;
    this.source.refuse(`\`${column}\` has ${classes}, but \`${name}\` has ${count}`);
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
      const names = listed(this.left.map(({ name }) => name));
      const text = `which column is \`${port.name}\`? Give --target NAME; there are: ${names}`;
      this.source.refuse(text, undefined, undefined, 'target');
    }
    if (fitsFirst && first !== last) return [[first], 'first column'];
    const columns = port.isFloat && !fitsLast ? this.left.slice(-port.rowSize) : [last];
    return [columns, columns.length === 1 ? 'last column' : 'last columns'];
  }

  /** @param {string} name @returns {Column} */
  #named(name) {
    const { columns } = this.table;
    const column = columns.find(one => one.name === name);
    if (column?.kind === 'empty') this.source.refuse(`\`${name}\` has no values`);
    const known = listed(columns.map(one => one.name));
    return column ?? this.source.refuse(`there is no column \`${name}\`; there are: ${known}`);
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
    if (!names.length) this.source.refuse('`columns` is given, but no input is left for it');
    const there = listed(this.left.map(({ name }) => name));
    const text = `which columns are ${listedNames(names)}? Name the columns like the inputs`;
    return this.source.refuse(`${text}; there are: ${there}`, undefined, undefined, 'columns');
  }
}

/** @param {Port} port */
function wantedColumns({ rowSize }) {
  return `${rowSize} column${rowSize === 1 ? '' : 's'}`;
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
