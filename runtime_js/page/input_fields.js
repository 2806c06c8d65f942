// Inputs of a few numbers: a slider and a field for each, with the name of its column. Inputs that
// are one of some classes: a list.

import { h } from './elements.js';
import { columnRange } from './examples.js';
import { classNames, fieldNames } from './ports.js';

/** @import { Input } from './ports.js' */
/**
 * @typedef {object} Editor of an input
 * @property {Element[]} elements
 * @property {() => number[]} row the numbers of one row
 * @property {(row: number[]) => void} set shows others
 * @property {(picture: Blob) => any} [take]
 * @property {() => void} [close]
 * @typedef {Editor & {size: number}} Part the editor of some numbers of a row
 */

/** Positions of a slider. */
const SLIDER_STEPS = 200;

/** @param {Input} input @param {() => any} changed @returns {Editor} */
export function makeFields(input, changed) {
  const fields = fieldNames(input).map((name, i) => numberField(input, i, name, changed));
  return joined(fields);
}

/** Several editors, each of some of the numbers of a row. @param {Part[]} parts @returns {Editor} */
export function joined(parts) {
  return {
    elements: parts.flatMap(({ elements }) => elements),
    row: () => parts.flatMap(({ row }) => row()),
    set(row) {
      let start = 0;
      for (const { size, set } of parts) {
        set(row.slice(start, start + size));
        start += size;
      }
    },
  };
}

/** Column `i` of an input. @param {Input} input @param {number} i @param {string} name @param {() => any} changed @returns {Part} */
export function numberField(input, i, name, changed) {
  const { line, field, set } = makeField(name, fieldRange(input, i), input.isFloat, changed);
  return {
    size: 1,
    elements: [line],
    row: () => [Number(field.value)],
    set: ([value]) => set(value),
  };
}

/** @param {Input} input @param {number} i */
function fieldRange(input, i) {
  if (input.range) return input.range;
  return /temperature/.test(input.key) ? { low: 0, high: 2 } : columnRange(input, i);
}

/** @param {string} name @param {{low: number, high: number}} range @param {boolean} isFraction @param {() => any} changed */
function makeField(name, { low, high }, isFraction, changed) {
  // A power of ten that is not larger than the positions are apart.
  const place = 10 ** Math.floor(Math.log10((high - low) / SLIDER_STEPS || 1));
  const step = isFraction ? place : 1;
  const range = { type: 'range', min: low, max: high, step, 'aria-label': `${name}, slider` };
  const slider = h('input', [], range);
  const field = h('input', [], { type: 'number', step: 'any', id: `field-${name}` });
  slider.oninput = () => {
    field.value = `${+Number(slider.value).toPrecision(6)}`;
    changed();
  };
  field.oninput = () => {
    slider.value = field.value;
    changed();
  };
  const set = (/** @type {number} */ value) => {
    field.value = `${+value.toPrecision(6)}`;
    slider.value = `${value}`;
  };
  return { line: fieldLine(name, field.id, slider, field), field, set };
}

/** @param {string} name @param {string} id @param {Element[]} controls */
export const fieldLine = (name, id, ...controls) =>
  h('div', [h('label', name, { htmlFor: id, title: name }), ...controls], { className: 'slider' });

/** @param {Input} input @param {() => any} changed @returns {Editor} */
export function makeClassList(input, changed) {
  const { low, high } = input.range ?? { low: 0, high: 0 };
  const { line, list } = makeList(input.key, classNames(high + 1, input.key), low, changed);
  return {
    elements: [line],
    row: () => [Number(list.value)],
    set([value]) {
      list.value = `${value}`;
    },
  };
}

/** One name, which becomes a row with 1 at its place and 0 at the others. @param {Input} input @param {() => any} changed @returns {Editor} */
export function makeOneHotList(input, changed) {
  const { size, key, prepared } = input;
  const label = prepared?.columns?.[0] ?? key;
  const { line, list } = makeList(label, classNames(size, key), 0, changed);
  return {
    elements: [line],
    row: () => Array.from({ length: size }, (_, i) => Number(i === Number(list.value))),
    set(row) {
      list.value = `${row.indexOf(Math.max(...row))}`;
    },
  };
}

/** A list of names, whose values are their numbers from `low`. @param {string} label @param {string[]} names @param {number} low @param {() => any} changed */
export function makeList(label, names, low, changed) {
  const options = names.slice(low).map((name, i) => h('option', name, { value: low + i }));
  const list = h('select', options, { id: `class-${label}`, onchange: changed });
  return { line: fieldLine(label, list.id, list), list };
}
