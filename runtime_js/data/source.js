// Where in a file something is, and how messages about it are written. Mirrors source.py.

import { WgccError } from '../core/errors.js';

/** @import { Preview } from './columns.js' */

const LONGEST_CELL = 40;
const MOST_ITEMS = 12;
const AT_THE_ENDS = /^[ \t\u00a0\r\n]+|[ \t\u00a0\r\n]+$/g;
/** @type {Record<string, string>} */
const ESCAPES = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The file that is read. */
export class Source {
  /** @type {string[]} */
  notes = [];
  /** What a table looks like, once that is known. @type {Preview | null} */
  preview = null;

  /** @param {string} name @param {string} [unit] what the lines of its records count */
  constructor(name, unit = 'line') {
    this.name = name;
    this.unit = unit;
  }

  /** @param {string} text */
  note(text) {
    this.notes.push(text);
  }

  /**
   * Throws an error whose text begins with the file and the place, if there is one.
   * @param {string} what @param {number} [line] @param {number} [column]
   * @param {string} [option] that would decide it
   * @returns {never}
   */
  refuse(what, line, column, option) {
    const place = line === undefined ? '' : `, ${this.place(line, column)}`;
    const error = new WgccError('data', `${this.name}${place}: ${what}`);
    throw Object.assign(error, { field: this.name, option, preview: this.preview });
  }

  /** @param {number} line @param {number} [column] */
  place(line, column) {
    return `${this.unit} ${line}${column === undefined ? '' : `, column ${column}`}`;
  }
}

/**
 * `a,"b, c"` as one word of a command line, as `--columns` takes it: it can be pasted.
 * @param {string[]} names
 */
export function pasted(names) {
  const field = (/** @type {string} */ name) =>
    /[,"]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
  const text = names.map(field).join(',');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** Without blanks at its ends. @param {string} cell */
export function trimmed(cell) {
  // Most cells have none, which is found out faster than by a regular expression.
  return isBlank(cell.charCodeAt(0)) || isBlank(cell.charCodeAt(cell.length - 1))
    ? cell.replace(AT_THE_ENDS, '')
    : cell;
}

/** @param {number} code */
function isBlank(code) {
  return code <= 32 || code === 160;
}

/** A cell in single quotes, cut if it is long, on one line. @param {string} cell */
export function shown(cell) {
  const letters = [...cell];
  const cut = letters.length > LONGEST_CELL ? [...letters.slice(0, LONGEST_CELL), '…'] : letters;
  return `'${cut.map(letter => ESCAPES[letter] ?? letter).join('')}'`;
}

/** `a, b, c`, cut after some. @param {string[]} items */
export function listed(items) {
  return items.slice(0, MOST_ITEMS).join(', ') + (items.length > MOST_ITEMS ? ', …' : '');
}

/** @param {string[]} items */
export function listedNames(items) {
  return listed(items.map(item => `\`${item}\``));
}

/** @param {number} count @param {string} one @param {string} many */
export function counted(count, one, many) {
  return `${count} ${count === 1 ? one : many}`;
}
