// A table as arrays for the inputs of an entry: matching, missing cells, classes, scaling. Mirrors
// tables.py.

import { ownOf } from '../core/records.js';
import { readAmounts } from './amounts.js';
import { isMissing, numberParser } from './cells.js';
import { readClasses } from './classes.js';
import { makeTable } from './columns.js';
import { noteDoubts } from './doubts.js';
import { Port } from './form.js';
import { extended, KnownClasses } from './known_classes.js';
import { isOneHot, matchColumns } from './matching.js';
import { askedColumns } from './options.js';
import { forEachIndex } from './pause.js';
import { findPrepared } from './prepared_columns.js';
import { Data } from './result.js';
import { checkRows, otherInputs } from './rows_left.js';
import { deviationOf, meanOf, needsScaling } from './scaling.js';
import { shown } from './source.js';

/** @import { Column, Table } from './columns.js' */
/** @import { FeatureSource } from './features.js' */
/** @import { EntryForm, ModelForm } from './form.js' */
/** @import { Matching } from './matching.js' */
/** @import { Options } from './options.js' */
/** @import { Delimited } from './records.js' */
/** @import { Dropped } from './rows_left.js' */
/** @import { Source } from './source.js' */
/** @typedef {{spec: Record<string, any>, array: any}} Input how it is prepared, and its rows */

/**
 * Reads records for an entry.
 * @param {Delimited} records @param {Source} source @param {ModelForm} form
 * @param {EntryForm} entry @param {Options} options
 * @param {boolean} [header] whether the first record is one, if that is known
 */
export async function readTable(records, source, form, entry, options, header) {
  const others = otherInputs(entry, options.values ?? {}, source);
  const { preparation } = options;
  /** @type {any[]} */
  const specs = Object.values(preparation?.inputs ?? {});
  const prepared = specs.flatMap(({ columns = [], sources = [] }) => [
    ...columns,
    ...sources.map((/** @type {FeatureSource} */ { column }) => column),
  ]);
  const asked = new Set([...askedColumns(options), ...Object.keys(entry.inputs), ...prepared]);
  const parse = await numberParser(records, options.decimal, source);
  const table = await makeTable(records, parse, source, asked, header);
  if (options.encode || specs.some(({ sources }) => sources)) await readAmounts(table, parse);
  const matching = preparation
    ? await findPrepared(table, entry, preparation)
    : await matchColumns(table, entry, form.target(entry), options);
  noteInputs(source, matching);
  return new Reading(table, entry, matching, options, form.classes).data(others);
}

/** Also shown with a table that is refused later. @param {Source} source @param {Matching} matching */
function noteInputs({ preview }, matching) {
  for (const [name, columns] of matching.columns)
    for (const { number } of columns) if (preview) preview.columns[number - 1].input = name;
}

/** The steps from matched columns to arrays. */
class Reading {
  /** @type {Column[]} */
  #needsScaling = [];
  /** Numbers of columns. @type {Set<number>} */
  #filled = new Set();

  /**
   * @param {Table} table @param {EntryForm} entry @param {Matching} matching
   * @param {Options} options @param {Record<string, string[]>} classes that the model knows
   */
  constructor(table, entry, matching, options, classes) {
    this.table = table;
    this.source = table.source;
    this.entry = entry;
    this.matching = matching;
    this.options = options;
    this.classes = classes;
    /** What the preparation that was given says of inputs. @type {Record<string, any>} */
    this.known = options.preparation?.inputs ?? {};
  }

  /** @param {Record<string, any>} others */
  async data(others) {
    await this.#refuseOddCells();
    const { rows, dropped } = await this.#keptRows();
    checkRows(this.source, this.entry, rows.length, dropped);
    /** @type {Record<string, any>} */
    const inputs = {};
    /** @type {Record<string, any>} */
    const arrays = {};
    for (const name of this.entry.rows) {
      const { spec, array } = await this.#input(name, rows);
      const shape = [rows.length, ...this.entry.inputs[name].rowShape];
      inputs[name] = spec;
      arrays[name] = Object.assign(array, { shape });
    }
    const { preparation, missing = 'drop' } = this.options;
    if (this.entry.training && !preparation)
      await noteDoubts(this.source, this.matching, inputs, arrays, rows);
    const target = this.matching.target ?? null;
    return new Data({
      arrays: { ...arrays, ...others },
      preparation: preparation
        ? extended(preparation, inputs)
        : { version: 1, inputs, target, missing },
      rows: rows.length,
      withRows: Object.keys(arrays),
      notes: this.source.notes,
      dropped,
      columns: this.#described(),
      needsScaling: this.#needsScaling.sort((a, b) => a.number - b.number).map(({ name }) => name),
      preview: this.source.preview,
      ownScaling: Boolean(this.options.scale && !preparation),
    });
  }

  /** @param {string} name */
  #kind(name) {
    if (this.known[name]) return this.known[name].kind;
    const port = this.entry.inputs[name];
    const columns = this.matching.columns.get(name) ?? [];
    if (port.takesClasses) return 'classes';
    return columns.length === 1 && isOneHot(columns[0], port) ? 'one hot' : 'columns';
  }

  /** Those of the preparation that was given, else those that the model knows. @param {string} name */
  #knownClasses(name) {
    const names = this.known[name]?.classes ?? ownOf(this.classes, name);
    const { inputs, training } = this.entry;
    return names?.length ? new KnownClasses(names, inputs[name], training) : undefined;
  }

  async #refuseOddCells() {
    const { lines } = this.table;
    const used = this.matching.used().filter(({ kind }) => kind === 'numbers');
    await forEachIndex(lines.length, row => {
      for (const { cells, values, name, number } of used)
        if (Number.isNaN(values[row]) && !isMissing(cells[row])) {
          const values = { column: name, cell: shown(cells[row]) };
          this.source.refuse('odd-cell', values, lines[row], number);
        }
    });
  }

  async #keptRows() {
    const { lines } = this.table;
    const filled = this.#filledColumns();
    const needed = this.matching.used().filter(({ number }) => !filled.has(number));
    /** @type {number[]} */
    const rows = [];
    /** @type {Map<Column, Dropped>} */
    const dropped = new Map();
    await forEachIndex(lines.length, row => {
      const missing = needed.find(({ cells }) => isMissing(cells[row]));
      if (!missing) {
        rows.push(row);
        return;
      }
      const reason = `no value in \`${this.#rawName(missing.number)}\``;
      const { count, first } = dropped.get(missing) ?? { count: 0, first: lines[row] };
      dropped.set(missing, { reason, count: count + 1, first });
    });
    return { rows: new Uint32Array(rows), dropped: [...dropped.values()] };
  }

  /** The name in the file, also of features. @param {number} number of a column */
  #rawName(number) {
    return this.table.columns[number - 1].name;
  }

  /** Numbers of the columns whose missing cells become the mean; nothing is learned from an answer that nobody gave. */
  #filledColumns() {
    if (this.options.missing !== 'mean') return new Set();
    const filled = [...this.matching.columns]
      .filter(([name]) => name !== this.matching.target)
      .filter(([name]) => this.entry.inputs[name].isFloat && this.#kind(name) === 'columns')
      .flatMap(([, columns]) => columns);
    return new Set(filled.map(({ number }) => number));
  }

  /** @param {string} name @param {Uint32Array} rows @returns {Promise<Input>} */
  async #input(name, rows) {
    const columns = this.matching.columns.get(name) ?? [];
    const port = this.entry.inputs[name];
    const kind = this.#kind(name);
    const names = columns.map(column => column.name);
    if (kind === 'columns') {
      const { spec, array } = port.isFloat
        ? await this.#floats(name, columns, rows)
        : await this.#integers(port, columns, rows);
      const sources = this.matching.sources.get(name);
      return { spec: { kind, columns: names, ...(sources && { sources }), ...spec }, array };
    }
    const known = this.#knownClasses(name);
    const classes = await readClasses(this.table, columns[0], rows, port, known);
    if (!classes.names)
      return { spec: { kind: 'columns', columns: names }, array: integers(classes.ids, port) };
    const spec = { kind, columns: names, classes: classes.names };
    if (kind === 'classes') return { spec, array: integers(classes.ids, port) };
    const array = new Float32Array(rows.length * port.rowSize);
    await forEachIndex(rows.length, i => {
      array[i * port.rowSize + classes.ids[i]] = 1;
    });
    return { spec, array };
  }

  /** @param {Port} port @param {Column[]} columns @param {Uint32Array} rows @returns {Promise<Input>} */
  async #integers(port, columns, rows) {
    // As whole numbers, whatever their range: `fit` checks that.
    const plain = new Port(port.name, { dtype: 'i32', shape: port.shape });
    const array = integers(new Float64Array(rows.length * columns.length), port);
    for (const [at, column] of columns.entries()) {
      const { ids } = await readClasses(this.table, column, rows, plain);
      await forEachIndex(rows.length, i => {
        array[i * columns.length + at] = ids[i];
      });
    }
    return { spec: {}, array };
  }

  /** @param {string} name @param {Column[]} columns @param {Uint32Array} rows @returns {Promise<Input>} */
  async #floats(name, columns, rows) {
    const known = this.known[name];
    // Entries that do not train get raw numbers: calling them scales.
    const isRaw = known && !this.entry.training;
    const array = new (isRaw ? Float64Array : Float32Array)(rows.length * columns.length);
    /** @type {{mean: number[], deviation: number[]}} */
    const found = { mean: [], deviation: [] };
    for (const [at, column] of columns.entries()) {
      const values = await this.#filledColumn(column, rows, known?.mean?.[at]);
      const mean = await meanOf(values);
      const deviation = await deviationOf(values, mean);
      if (!known && needsScaling(mean, deviation)) this.#needsScaling.push(column);
      found.mean.push(mean);
      found.deviation.push(deviation);
      const used = known ? known : found;
      const isScaled = known ? !isRaw && known.mean : this.options.scale;
      const [shift, factor] = isScaled ? [used.mean[at], used.deviation[at] || 1] : [0, 1];
      await forEachIndex(rows.length, i => {
        array[i * columns.length + at] = (values[i] - shift) / factor;
      });
    }
    return { spec: this.options.scale ? found : {}, array };
  }

  /** @param {Column} column @param {Uint32Array} rows @param {number} [known] mean of the preparation; without it, that of the rows */
  async #filledColumn({ name, number, values }, rows, known) {
    const chosen = new Float64Array(rows.length);
    const present = new Float64Array(rows.length);
    let count = 0;
    await forEachIndex(rows.length, i => {
      chosen[i] = values[rows[i]];
      if (!Number.isNaN(chosen[i])) present[count++] = chosen[i];
    });
    const missing = rows.length - count;
    if (!missing) return chosen;
    if (!count && known === undefined) this.source.refuse('no-values-left', { column: name });
    const mean = known ?? (await meanOf(present.subarray(0, count)));
    // Features of one column miss the same cells.
    if (!this.#filled.has(number)) {
      this.source.note('cells-filled', { count: missing, column: this.#rawName(number) });
    }
    this.#filled.add(number);
    await forEachIndex(rows.length, i => {
      if (Number.isNaN(chosen[i])) chosen[i] = mean;
    });
    return chosen;
  }

  #described() {
    const inputs = new Map(
      [...this.matching.columns].flatMap(([name, columns]) =>
        columns.map(({ number }) => /** @type {[number, string]} */ ([number, name])),
      ),
    );
    return this.table.columns.map(({ name, kind, number }) => ({
      name,
      kind,
      input: inputs.get(number) ?? null,
    }));
  }
}

/** @param {Float64Array} values @param {Port} port */
function integers(values, port) {
  return port.dtype === 'bool' ? new Uint8Array(values) : new Int32Array(values);
}
