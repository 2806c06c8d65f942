// Sizes of the model that others take the place of, without an edit of the program.

import { $, h, put } from '../page/elements.js';
import { bench } from './state.js';

/** @typedef {{name: string, value: number}} Size */

/** The dims that the program declares. @param {Size[]} dims */
export function drawSizes(dims) {
  const known = new Set(dims.map(({ name }) => name));
  for (const name of Object.keys(bench.sizes)) if (!known.has(name)) delete bench.sizes[name];
  $('sizes').hidden = !dims.length;
  // A field that somebody types in stays.
  if ($('size-fields').contains(document.activeElement)) return;
  put(
    'size-fields',
    dims.map(size => h('label', [size.name, ' ', fieldOf(size)])),
  );
}

/** @param {Size} size */
function fieldOf({ name, value }) {
  const field = h('input', [], {
    type: 'number',
    min: '1',
    max: String(2 ** 31 - 1),
    value: String(bench.sizes[name] ?? value),
    placeholder: String(value),
  });
  field.onchange = () => {
    const size = Number(field.value);
    if (Number.isSafeInteger(size) && size > 0 && size !== value) bench.sizes[name] = size;
    else delete bench.sizes[name];
    bench.announce('files');
  };
  return field;
}
