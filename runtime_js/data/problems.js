// Why data was refused: a problem with its values, which each front end puts into its own words.
// Mirrors problems.py.

import PROBLEMS from '../../runtime_py/wgcc_runtime/tables/data_problems.json' with {
  type: 'json',
};
import { WgccError } from '../core/errors.js';

/** @import { Preview } from './columns.js' */
/** @typedef {{text: string, option?: string, advice?: string}} Problem */

const MOST_ITEMS = 12;
/** `[name:text]` is there if the value is; `{name}` is a value, `{name:one|many}` a number of things. */
const PART = /\[(\w+):([^\]]*)\]/g;
const VALUE = /\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g;

/** Data that was refused: `problem` says why, `option` what would decide it, if one does. */
export class DataError extends WgccError {
  /**
   * @param {keyof typeof PROBLEMS} problem @param {Record<string, any>} values
   * @param {string} source the name of the file @param {string} place in it, if there is one
   * @param {Preview | null} preview
   */
  constructor(problem, values, source, place, preview) {
    /** @type {Problem} */
    const { text, option, advice = '' } = PROBLEMS[problem];
    const start = `${source}${place && `, ${place}`}: `;
    super('data', start + worded(text + advice, values));
    this.field = source;
    this.problem = problem;
    this.values = values;
    this.place = place;
    this.option = option;
    this.preview = preview;
    /** The message with the advice of a front end: a template of the same form. */
    this.worded = (/** @type {string} */ other) => start + worded(text + other, values);
  }
}

/** @param {string} template @param {Record<string, any>} values */
export function worded(template, values) {
  // An empty list is not there, as in Python.
  const isThere = (/** @type {any} */ value) => value && `${value}` !== '';
  const valueIn = (/** @type {string} */ _, /** @type {string} */ name, one = '', many = '') => {
    const value = values[name];
    if (many) return counted(value, one, many);
    return Array.isArray(value) ? listed(value) : `${value}`;
  };
  return template
    .replace(PART, (_, name, text) => (isThere(values[name]) ? text : ''))
    .replace(VALUE, valueIn);
}

/** `a, b, c`, cut after some. @param {string[]} items */
export function listed(items) {
  return items.slice(0, MOST_ITEMS).join(', ') + (items.length > MOST_ITEMS ? ', …' : '');
}

/** @param {number} count @param {string} one @param {string} many */
export function counted(count, one, many) {
  return `${count} ${count === 1 ? one : many}`;
}
