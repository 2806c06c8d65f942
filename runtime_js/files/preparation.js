// What a file of weights says about the data that its model was trained with: see data/apply.js.

import { fail } from '../core/errors.js';

const PREPARATION_VERSION = 1;

/**
 * The preparation in the metadata of a file; null if there is none.
 * @param {string | undefined} text @param {string} field the file's name in errors
 */
export function preparationOf(text, field) {
  if (text === undefined) return null;
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    // Not sound, either.
  }
  const inputs = found?.inputs;
  if (inputs?.constructor !== Object || !Object.values(inputs).every(isSound))
    fail('weights', field, 'has a damaged preparation');
  if (found.version !== PREPARATION_VERSION)
    fail(
      'version',
      field,
      `has a preparation of version ${found.version}, not ${PREPARATION_VERSION}`,
    );
  return found;
}

/** @param {any} input */
function isSound(input) {
  const { mean = [], deviation = [], columns = [], classes = [], sources = [] } = input ?? {};
  if (!Array.isArray(sources) || !sources.every(isSoundSource)) return false;
  const areNames = [columns, classes].every(
    list => Array.isArray(list) && list.every(name => typeof name === 'string'),
  );
  const areNumbers = [mean, deviation].every(
    list => Array.isArray(list) && list.every(Number.isFinite),
  );
  return areNames && areNumbers && mean.length === deviation.length;
}

/** Of features: see data/features.js. @param {any} source */
function isSoundSource(source) {
  const { column, names = [], parts = [] } = source ?? {};
  const isText = (/** @type {unknown} */ text) => typeof text === 'string';
  return isText(column) && [names, parts].every(list => Array.isArray(list) && list.every(isText));
}
