// Fields for columns as the file has them: a list for names, a date for dates, a slider for numbers,
// where data was read with `encode`.

import { dateParts, PARTS } from '../data/dates.js';
import { featureNames } from '../data/features.js';
import { h } from './elements.js';
import { fieldLine, joined, makeList, numberField } from './input_fields.js';

/** @import { FeatureSource } from '../data/features.js' */
/** @import { Editor, Part } from './input_fields.js' */
/** @import { Input } from './ports.js' */

/** Parts that a date field is set to, where the model does not take them. */
const USUAL_DATE = { year: 2024, month: 1, day: 1, hour: 12 };

/** @param {Input} input @param {() => any} changed @returns {Editor} */
export function makeSourceFields(input, changed) {
  let start = 0;
  /** @type {FeatureSource[]} */
  const sources = input.prepared.sources;
  const parts = sources.map(source => {
    const place = start;
    start += featureNames(source).length;
    if (source.names) return nameField(source.column, source.names, changed);
    if (source.date) return dateField(source.column, source.parts ?? [], changed);
    const { column, unit } = source;
    return numberField(input, place, unit ? `${column} (${unit})` : column, changed);
  });
  return joined(parts);
}

/** The numbers are those of features.js: one for two names, else one for each. @param {string} column @param {string[]} names @param {() => any} changed @returns {Part} */
function nameField(column, names, changed) {
  const { line, list } = makeList(column, names, 0, changed);
  const chosen = () => Number(list.value);
  const isPair = names.length === 2;
  return {
    size: isPair ? 1 : names.length,
    elements: [line],
    row: () => (isPair ? [chosen()] : names.map((_, i) => Number(i === chosen()))),
    set(row) {
      list.value = `${isPair ? Math.round(row[0]) : row.indexOf(Math.max(...row))}`;
    },
  };
}

/** @param {string} column @param {string[]} parts @param {() => any} changed @returns {Part} */
function dateField(column, parts, changed) {
  const hasTime = parts.includes('hour');
  const type = hasTime ? 'datetime-local' : 'date';
  const field = h('input', [], { type, id: `date-${column}`, required: true, onchange: changed });
  return {
    size: parts.length,
    elements: [fieldLine(column, field.id, field)],
    row() {
      const numbers = dateParts(field.value, 'ymd');
      return parts.map(part => numbers?.[PARTS.indexOf(part)] ?? 0);
    },
    set(row) {
      const given = Object.fromEntries(parts.map((part, i) => [part, row[i]]));
      field.value = dateText({ ...USUAL_DATE, ...given }, hasTime);
    },
  };
}

/** As such fields take it. @param {typeof USUAL_DATE} date @param {boolean} hasTime */
function dateText({ year, month, day, hour }, hasTime) {
  const text = (/** @type {number} */ value, digits = 2) =>
    `${Math.round(value)}`.padStart(digits, '0');
  const date = `${text(year, 4)}-${text(month)}-${text(day)}`;
  const whole = Math.floor(hour);
  return hasTime ? `${date}T${text(whole)}:${text(60 * (hour - whole))}` : date;
}
