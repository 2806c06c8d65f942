// Where in a file something is, and how messages about it are written. Mirrors source.py.

import NOTES from '../../runtime_py/wgcc_runtime/tables/data_notes.json' with { type: 'json' };
import { DataError, worded } from './problems.js';

/** @import { Preview } from './columns.js' */

const LONGEST_CELL = 40;
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

  /**
   * `one` and `more` are there by `count`.
   * @param {keyof typeof NOTES} note @param {Record<string, any>} [values]
   */
  note(note, values = {}) {
    const isOne = values.count === 1;
    this.notes.push(worded(NOTES[note], { ...values, one: isOne, more: !isOne }));
  }

  /**
   * Throws an error whose text begins with the file and the place, if there is one.
   * @param {ConstructorParameters<typeof DataError>[0]} problem @param {Record<string, any>} [values]
   * @param {number} [line] @param {number} [column]
   * @returns {never}
   */
  refuse(problem, values = {}, line = undefined, column = undefined) {
    const place = line === undefined ? '' : this.place(line, column);
    throw new DataError(problem, values, this.name, place, this.preview);
  }

  /** @param {number} line @param {number} [column] */
  place(line, column) {
    return `${this.unit} ${line}${column === undefined ? '' : `, column ${column}`}`;
  }
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

/** @param {{name: string}[]} columns */
export const quotedNames = columns => columns.map(({ name }) => `\`${name}\``);
