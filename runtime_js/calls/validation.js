// The option `validation` of `fit`: what becomes of it is a function that returns numbers by name.
// Mirrors evaluation.py.

import { batchOf, DATA, withoutUnusual } from '../core/batches.js';
import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { isScalar } from '../core/plan.js';
import { filterRecord, mapRecord, ownOf } from '../core/records.js';
import { meanOfBatches, rowCount } from './rows.js';

/** @import { Session } from '../core/session.js' */
/** @import { Numbers, Settings } from '../fit/training.js' */

/**
 * Arrays for an entry, of which every row counts, or a function of the model.
 * @param {Session} session @param {any} model as callers see it @param {Settings} options of `fit`
 * @returns {Promise<() => Promise<Numbers>>}
 */
export async function openValidation(session, model, options) {
  const { validation, validationEntry: entryName = 'eval' } = options;
  if (typeof validation === 'function') return async () => numbersOf(await validation(model));
  if (Object(validation) !== validation || validation[Symbol.iterator])
    fail('data', 'validation', 'is an object of arrays, or a function');
  const { plan } = session;
  const entry = ownOf(plan.entries, entryName);
  if (!entry) return (await loadCheck()).refuseValidation(plan, entryName);
  const arrays = validation[DATA] ? validation.arrays : validation;
  const given = await withoutUnusual(plan, entryName, arrays);
  const isWhole = batchOf(plan, entryName, given) !== undefined;
  const count = isWhole ? 0 : await rowCount(plan, entryName, given, true);
  // What `readData` returns is prepared; other arrays hold what people read.
  const call = validation[DATA] ? session.call.bind(session) : model.call;
  const scalars = filterRecord(entry.outputs, id => isScalar(plan.tensors[id]));
  return async () => {
    const mixes = !isWhole && !entry.rows?.outputs;
    const outputs = mixes
      ? await meanOfBatches({ plan, call }, entryName, given, count)
      : await call(entryName, given);
    return mapRecord(scalars, (_, port) => outputs[port][0]);
  };
}

/** What a caller's function returned. @param {any} result @returns {Numbers} */
function numbersOf(result) {
  if (result == null) return {};
  return Object(result) === result ? mapRecord(result, Number) : { value: Number(result) };
}
