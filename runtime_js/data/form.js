// What reading data needs to know of a model: the inputs of its entries. Mirrors form.py.

import { rangeOf } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { elementCount } from '../core/plan.js';
import { mapRecord, ownOf } from '../core/records.js';

/** @import { Dtype, Plan, Range, Tensors, TokenVocab } from '../core/plan.js' */
/**
 * @typedef {{dtype: Dtype, shape: number[], range?: Range}} PortFacts
 * @typedef {{inputs: string[], dim?: string, outputs?: Record<string, string>}} RowFacts
 * @typedef {{training: boolean, inputs: Record<string, PortFacts>, rows?: RowFacts}} EntryFacts
 * @typedef {object} ModelFacts
 * @property {string | TokenVocab} [vocab]
 * @property {Record<string, EntryFacts>} entries
 * @property {Record<string, string[]>} [classes] that the model knows, by input and id
 */
/**
 * @typedef {() => Promise<{encodePieces: (text: string) => Iterable<number[]>}>} Tokens
 */

/** An input. */
export class Port {
  /** @param {string} name @param {PortFacts} facts */
  constructor(name, { dtype, shape, range }) {
    this.name = name;
    this.dtype = dtype;
    this.shape = shape;
    /** The integers that it may hold, if they are known. @type {Range | undefined} */
    this.allowed = dtype === 'bool' ? { low: 0, high: 1 } : range;
    this.isFloat = dtype === 'f32' || dtype === 'f16';
    this.rowShape = shape.slice(1);
    this.rowSize = elementCount(this.rowShape);
    this.takesClasses = !this.isFloat && this.rowSize === 1;
    /** How many classes it distinguishes, if it counts them from 0. */
    this.classCount = this.allowed?.low === 0 ? this.allowed.high + 1 : undefined;
  }

  /** @param {number} value */
  allows(value) {
    const { low = -Infinity, high = Infinity, ignore = undefined } = this.allowed ?? {};
    return (value >= low && value <= high) || value === ignore;
  }

  toString() {
    return this.shape.length ? `${this.dtype}[${this.shape.join(', ')}]` : this.dtype;
  }
}

/** An entry; `rows` are the inputs with one row per example, `batch` their number of rows. */
export class EntryForm {
  /** @param {string} name @param {EntryFacts} facts */
  constructor(name, { training, inputs, rows }) {
    this.name = name;
    this.training = training;
    this.inputs = mapRecord(inputs, (facts, port) => new Port(port, facts));
    this.rows = rows?.inputs ?? [];
    this.batch = this.rows.length ? this.inputs[this.rows[0]].shape[0] : 1;
    this.dim = rows?.dim;
    this.anyRows = Object.keys(rows?.outputs ?? {}).length > 0;
  }
}

export class ModelForm {
  /** @param {ModelFacts} facts @param {Tokens} [tokens] opens the file of the vocabulary */
  constructor({ vocab = '', entries, classes = {} }, tokens) {
    this.vocab = vocab;
    this.classes = classes;
    this.tokens = tokens;
    this.entries = mapRecord(entries, (facts, name) => new EntryForm(name, facts));
  }

  /** The same for a model that knows these. @param {Record<string, string[]>} classes */
  withClasses(classes) {
    /** @type {ModelForm} */
    const form = Object.create(ModelForm.prototype);
    return Object.assign(form, this, { classes });
  }

  /** The entry of that name; without one, the first that trains. @param {string} [name] */
  entry(name) {
    const all = Object.values(this.entries);
    const trainer = this.entries.train?.training ? this.entries.train : undefined;
    if (name === undefined) return trainer ?? all.find(entry => entry.training) ?? all[0];
    const entry = ownOf(this.entries, name);
    const known = Object.keys(this.entries).join(', ');
    return entry ?? fail('name', name, `is no entry of the model; there are: ${known}`);
  }

  /**
   * The input that the model learns to predict: the one that predicting entries lack.
   * @param {EntryForm} entry @returns {string | undefined}
   */
  target(entry) {
    const all = Object.values(this.entries);
    const shared = (/** @type {EntryForm} */ other) =>
      other.rows.filter(name => entry.rows.includes(name)).length;
    const isEqual = (/** @type {EntryForm} */ other) =>
      shared(other) === entry.rows.length && other.rows.length === entry.rows.length;
    if (!entry.training) {
      const trainer = all.find(other => other.training && isEqual(other));
      return trainer && this.target(trainer);
    }
    const predicting = all.filter(
      other => !other.training && shared(other) && shared(other) < entry.rows.length,
    );
    if (!predicting.length) return entry.rows.length > 1 ? entry.rows.at(-1) : undefined;
    const wanted = entry.rows.filter(name => predicting.every(other => !other.rows.includes(name)));
    return wanted.length === 1 ? wanted[0] : undefined;
  }
}

/** @param {Plan} plan @param {Tokens} [tokens] @returns {ModelForm} */
export function formOf({ model, entries, tensors }, tokens) {
  const facts = {
    vocab: model.vocab,
    entries: mapRecord(entries, ({ training, inputs, ranges, rows }) => ({
      training,
      rows: rows ?? { inputs: inputsWithRows(inputs, tensors) },
      inputs: mapRecord(inputs, (id, name) => {
        const range = ownOf(ranges, name);
        const { dtype, shape } = tensors[id];
        return { dtype, shape, range: range && rangeOf(range) };
      }),
    })),
  };
  return new ModelForm(facts, tokens);
}

/**
 * Bundles of earlier versions do not say it: inputs with the leading axis of the first.
 * @param {Record<string, string>} inputs @param {Tensors} tensors
 */
function inputsWithRows(inputs, tensors) {
  const shaped = Object.keys(inputs).filter(name => tensors[inputs[name]].shape.length);
  const sizeOf = (/** @type {string} */ name) => tensors[inputs[name]].shape[0];
  return shaped.filter(name => sizeOf(name) === sizeOf(shaped[0]));
}
