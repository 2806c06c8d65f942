// The options of reading, checked. Mirrors options.py.

import { fail } from '../core/errors.js';

/**
 * @typedef {object} Options see wgcc/DATA.md
 * @property {string} [entry]
 * @property {string | null} [target]
 * @property {string[] | Record<string, string[]> | null} [columns] for the one input, or by input
 * @property {boolean} [scale]
 * @property {boolean} [encode]
 * @property {'drop' | 'mean'} [missing]
 * @property {',' | '.' | null} [decimal]
 * @property {'drop' | null} [unknown]
 * @property {Record<string, any>} [values]
 * @property {any} [preparation]
 * @property {string} [name] of a source that has none
 */

/** @type {Record<string, any[]>} */
const CHOICES = {
  missing: ['drop', 'mean'],
  decimal: [',', '.', null],
  unknown: ['drop', null],
  scale: [false, true],
  encode: [false, true],
};
const OTHERS = ['entry', 'target', 'columns', 'values', 'preparation', 'name'];

/** @param {Options} options */
export function checkOptions(options) {
  for (const [name, value] of Object.entries(options)) {
    if (!OTHERS.includes(name) && !Object.hasOwn(CHOICES, name))
      fail('data', name, 'is no option of readData');
    const allowed = CHOICES[name] ?? [value];
    if (value === undefined || allowed.includes(value)) continue;
    const known = allowed.filter(choice => choice !== null).map(choice => JSON.stringify(choice));
    fail('data', name, `is ${known.join(' or ')}, not ${JSON.stringify(value)}`);
  }
}

/** The columns that the options name. @param {Options} options @returns {string[]} */
export function askedColumns({ target, columns }) {
  const named = Array.isArray(columns) ? columns : Object.values(columns ?? {}).flat();
  return target == null ? named : [target, ...named];
}
