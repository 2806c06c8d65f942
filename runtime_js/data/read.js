// `readData`: files as data for a model. Mirrors read.py.

import { isOnlyNames } from '../core/class_names.js';
import { dataOfArrays, holdsArrays, readArrays } from './array_files.js';
import { decode } from './decode.js';
import { filesGiven } from './files_given.js';
import { formOf } from './form.js';
import { readJson } from './json_tables.js';
import { hasLearned, knownForm } from './known_classes.js';
import { checkOptions } from './options.js';
import { isPicture } from './picture_files.js';
import { readPictures } from './pictures.js';
import { counted } from './problems.js';
import { readRecords } from './records.js';
import { Source } from './source.js';
import { readTable } from './tables.js';
import { readsText, readText } from './text_windows.js';

/** @import { Plan } from '../core/plan.js' */
/** @import { SourceFile } from './files_given.js' */
/** @import { EntryForm, ModelForm, Tokens } from './form.js' */
/** @import { KnownModel } from './known_classes.js' */
/** @import { Options } from './options.js' */
/** @import { Data } from './result.js' */
/** @import { JsonTable, NamedArrays } from './json_tables.js' */
/** @import { Chunks } from './text_lines.js' */
/** @typedef {{notes: string[], unit: string}} Found what reading the file itself gave */
/** @typedef {Found & TableOrArrays} FoundTable */

/** @typedef {{table?: JsonTable, arrays?: NamedArrays}} TableOrArrays */

/** @param {Chunks} chunks @param {Source} source @returns {Promise<TableOrArrays>} */
async function readDelimited(chunks, source) {
  return { table: { records: await readRecords(chunks, source) } };
}

/**
 * What makes a table, or arrays, of a text, by the end of a file's name; all other files that are
 * no text have delimiters, too.
 * @type {Record<string, (chunks: Chunks, source: Source) => Promise<TableOrArrays>>}
 */
const TABLES = {
  '.csv': readDelimited,
  '.tsv': readDelimited,
  '.tab': readDelimited,
  '.json': readJson,
};
/** Ends of the names of files that hold data; pictures have others. */
export const DATA_SUFFIXES = [...Object.keys(TABLES), '.txt', '.npz', '.npy', '.safetensors'];

/** @param {string} name of a file */
const suffixOf = name => /\.\w+$/.exec(name.toLowerCase())?.[0] ?? '';

/**
 * A table, arrays, pictures or text as arrays for the inputs of an entry.
 * @param {any} source @param {Plan} plan @param {Options} [options]
 * @param {Tokens} [tokens] of the model, if its vocabulary is a file
 * @param {KnownModel} [model] what it has learned
 */
export async function readData(source, plan, options = {}, tokens = undefined, model = undefined) {
  checkOptions(options);
  const unknown = formOf(plan, tokens);
  const form = model ? knownForm(unknown, model.preparation, hasLearned(model)) : unknown;
  return new DataSource(filesGiven(source, options.name)).read(form, options);
}

/** Files that can be read again with other options, without decoding them again. */
export class DataSource {
  /** @type {Promise<Found & {chunks: Chunks}> | undefined} */
  #text;
  /** @type {Promise<FoundTable> | undefined} */
  #table;

  /** @param {SourceFile[]} files */
  constructor(files) {
    this.files = files;
    const [{ path, name }] = files;
    const kind = files.some(isPicture) ? 'picture' : 'file';
    const several = path.length > 1 ? path[0] : counted(files.length, kind, `${kind}s`);
    this.name = files.length > 1 || path.length > 1 ? several : name;
  }

  /** @param {ModelForm} form @param {Options} [options] @returns {Promise<Data>} */
  async read(form, options = {}) {
    const { preparation } = options;
    if (preparation && isOnlyNames(preparation))
      return this.#read(knownForm(form, preparation, true), { ...options, preparation: null });
    return this.#read(form, options);
  }

  /** @param {ModelForm} form @param {Options} options @returns {Promise<Data>} */
  async #read(form, options) {
    const source = new Source(this.name);
    const entry = form.entry(options.entry);
    const [file] = this.files;
    const arrayFiles = this.files.filter(holdsArrays);
    if (arrayFiles.length) return dataOfArrays(await readArrays(arrayFiles), source, entry);
    if (this.files.length > 1 && file.path.length === 1 && !this.files.some(isPicture))
      source.refuse('several-files');
    if (this.files.length > 1 || isPicture(file))
      return readPictures(this.files, source, form, entry, options);
    if (!Object.hasOwn(TABLES, suffixOf(file.name)) && readsText(form, entry)) {
      this.#text ??= this.#decoded();
      const { chunks, notes } = await this.#text;
      source.notes.push(...notes);
      return readText(chunks, source, form, entry, options);
    }
    this.#table ??= this.#foundTable();
    const { table, arrays, notes, unit } = await this.#table;
    source.notes.push(...notes);
    source.unit = unit;
    if (!table) return dataOfArrays(arrays ?? {}, source, entry);
    return readTable(table.records, source, form, entry, options, table.header);
  }

  /** The first characters of a text. @param {number} count */
  async beginning(count) {
    this.#text ??= this.#decoded();
    const { chunks } = await this.#text;
    let text = '';
    for (const chunk of chunks()) {
      text += chunk;
      if (text.length >= count) break;
    }
    return text.slice(0, count);
  }

  async #decoded() {
    const source = new Source(this.name);
    const chunks = await decode(await this.files[0].bytes(), source);
    return { chunks, notes: source.notes, unit: source.unit };
  }

  /** @returns {Promise<FoundTable>} */
  async #foundTable() {
    this.#text ??= this.#decoded();
    const { chunks, notes } = await this.#text;
    const source = new Source(this.name);
    const read = TABLES[suffixOf(this.files[0].name)] ?? readDelimited;
    const found = await read(chunks, source);
    return { ...found, notes: [...notes, ...source.notes], unit: source.unit };
  }
}
