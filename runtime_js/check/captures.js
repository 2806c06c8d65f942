// Checks of what an entry captures.

import { refuse } from './schema.js';

/** @import { Capture, Entry, Plan, Tensor } from '../core/plan.js' */

const SHOWN_ROLES = ['output', 'param', 'state'];
/** The elements of statistics: numbers, and counts with bins. */
const NUMBERS = 'f32 4';
const COUNTS = 'u32 35';

/** Captures name tensors. @param {Plan} plan @param {string} entryName */
export function checkCaptureNames({ entries, tensors }, entryName) {
  for (const [name, { tensor, numbers, counts }] of Object.entries(
    entries[entryName].captures ?? {},
  ))
    for (const [part, id] of Object.entries({ tensor, numbers, counts }))
      if (id !== undefined && !Object.hasOwn(tensors, id))
        refuse(`entries.${entryName}.captures.${name}.${part}`, id);
}

/** @param {Plan} plan @param {string} entryName */
export function checkCaptures({ entries, tensors }, entryName) {
  const entry = entries[entryName];
  for (const [name, capture] of Object.entries(entry.captures ?? {})) {
    const field = `entries.${entryName}.captures.${name}`;
    if (capture.tensor === undefined) checkStatistics(tensors, capture, field);
    else if (!SHOWN_ROLES.includes(tensors[capture.tensor].role)) refuse(field, capture.tensor);
    if (capture.rows === 'rows' && !hasRows(entry, tensors[capture.tensor ?? '']))
      refuse(`${field}.rows`, capture.rows);
  }
}

/** @param {Record<string, Tensor>} tensors @param {Capture} capture @param {string} field */
function checkStatistics(tensors, { numbers = '', counts = '' }, field) {
  const formOf = (/** @type {Tensor} */ { dtype, shape, role }) => `${dtype} ${shape} ${role}`;
  if (formOf(tensors[numbers]) !== `${NUMBERS} output`) refuse(field, numbers);
  if (formOf(tensors[counts]) !== `${COUNTS} output`) refuse(field, counts);
}

/** @param {Entry} entry @param {Tensor} tensor */
function hasRows({ rows }, { shape }) {
  return Boolean(rows?.outputs && shape.length && shape[0] % rows.count === 0);
}

/** The tensors of captures that are no parameters or state. @param {Plan} plan @param {string} entryName */
export function capturedOutputs({ entries, tensors }, entryName) {
  return Object.values(entries[entryName].captures ?? {})
    .flatMap(({ tensor, numbers, counts }) => [tensor ?? [], numbers ?? [], counts ?? []].flat())
    .filter(id => tensors[id].role === 'output');
}
