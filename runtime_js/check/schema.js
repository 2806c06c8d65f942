// Checks a JSON value against the part of JSON Schema that plan.schema.json uses. Mirrors
// strict_json.py. The schema is the only definition of the plan's form; errors name the wrong field.

import { fail } from '../core/errors.js';

/** @typedef {Record<string, any>} Schema */

/**
 * Throws a `WgccError` with code `plan` that names the first field of the wrong form.
 * @param {any} value @param {Schema} schema @param {Schema} root @param {string} [field]
 */
export function checkForm(value, schema, root, field = '') {
  if (schema.$ref) checkForm(value, definition(schema.$ref, root), root, field);
  for (const [keyword, isFine] of Object.entries(VALUE_CHECKS))
    if (keyword in schema && !isFine(value, schema[keyword])) refuse(field, value);
  if (isObject(value)) checkObject(value, schema, root, field);
  else if (Array.isArray(value) && schema.items)
    value.forEach((item, i) => {
      checkForm(item, schema.items, root, `${field}[${i}]`);
    });
  if (schema.anyOf) checkAny(value, schema.anyOf, root, field);
}

/** @param {string} field @param {any} got @returns {never} */
export function refuse(field, got) {
  const shown = JSON.stringify(got)?.slice(0, 60);
  return fail('plan', field, `is not as wgcc writes it: ${shown}; build the model again`);
}

/** @param {string} reference @param {Schema} root @returns {Schema} */
function definition(reference, root) {
  return root.$defs[reference.slice('#/$defs/'.length)];
}

/**
 * @param {Record<string, any>} value @param {Schema} schema @param {Schema} root
 * @param {string} field
 */
function checkObject(value, schema, root, field) {
  const { properties = {}, additionalProperties = true, propertyNames, required = [] } = schema;
  for (const name of required) if (!Object.hasOwn(value, name)) refuse(field, `no ${name}`);
  for (const [name, item] of Object.entries(value)) {
    const inner = field ? `${field}.${name}` : name;
    if (propertyNames) checkForm(name, propertyNames, root, inner);
    if (Object.hasOwn(properties, name)) checkForm(item, properties[name], root, inner);
    else if (additionalProperties === false) refuse(inner, item);
    else if (additionalProperties !== true) checkForm(item, additionalProperties, root, inner);
  }
}

/** @param {any} value @param {Schema[]} choices @param {Schema} root @param {string} field */
function checkAny(value, choices, root, field) {
  const same = choices.filter(({ type }) => TYPES[type](value));
  const whole = same.find(({ required = [] }) =>
    required.every((/** @type {string} */ name) => Object.hasOwn(value, name)),
  );
  // The alternative of the same JSON type gives the most useful message.
  checkForm(value, whole ?? same[0] ?? choices[0], root, field);
}

/** @param {any} value */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @type {Record<string, (value: any) => boolean>} */
const TYPES = {
  object: isObject,
  array: Array.isArray,
  string: value => typeof value === 'string',
  integer: Number.isInteger,
  number: Number.isFinite,
  boolean: value => typeof value === 'boolean',
};

/**
 * The test of a value for each keyword. A keyword accepts values of another type; `type` refuses
 * those.
 * @type {Record<string, (value: any, wanted: any) => boolean>}
 */
const VALUE_CHECKS = {
  type: (value, name) => TYPES[name](value),
  const: (value, wanted) => value === wanted,
  enum: (value, choices) => choices.includes(value),
  not: (value, { enum: refused }) => !refused.includes(value),
  minimum: (value, least) => typeof value !== 'number' || value >= least,
  maximum: (value, most) => typeof value !== 'number' || value <= most,
  multipleOf: (value, step) => typeof value !== 'number' || value % step === 0,
  maxLength: (value, most) => typeof value !== 'string' || value.length <= most,
  pattern: (value, pattern) => typeof value !== 'string' || new RegExp(pattern).test(value),
  minItems: (value, least) => !Array.isArray(value) || value.length >= least,
  maxItems: (value, most) => !Array.isArray(value) || value.length <= most,
  maxProperties: (value, most) => !isObject(value) || Object.keys(value).length <= most,
};
