// Walks through the sections of a twin.wasm before it is compiled: only what the compiler writes is
// accepted. Mirrors twin_form.py; twin.form.json has the rules of both.

import FORM from '../../runtime_py/wgcc_runtime/twin.form.json' with { type: 'json' };
import { fail } from '../core/errors.js';

/** @import { Entry, Plan, Twin } from '../core/plan.js' */
/** @typedef {{params: number[], results: number[]}} FunctionType */

const WASM_HEADER = '0,97,115,109,1,0,0,0';
const HEADER_BYTES = 8;
/** A number of 32 bits takes at most this many bytes. */
const LONGEST_NUMBER = 5;
const FUNCTION_TYPE = 0x60;

/**
 * Throws code `bundle` for a module that is not of the form that wgcc writes.
 * @param {Uint8Array} code @param {Plan} plan
 */
export function checkTwinForm(code, plan) {
  const { imports, types, functions, exports, code: bodies } = sectionsOf(code);
  checkImport(imports, /** @type {Twin} */ (plan.twin));
  const typeList = typesOf(types);
  const typeNumbers = functions.numbers('mostFunctions');
  functions.finish();
  checkExports(
    exports,
    plan,
    typeNumbers.map(number => typeList[number]),
  );
  checkCode(bodies, typeNumbers.length);
}

/** Bytes from `at` to `end`; whatever goes beyond them is refused. */
class WasmReader {
  /** @param {Uint8Array} code @param {number} at @param {number} end */
  constructor(code, at, end) {
    this.code = code;
    this.at = at;
    this.end = end;
  }

  byte() {
    if (this.at >= this.end) refuseTwin('it is cut off');
    return this.code[this.at++];
  }

  /** @returns {number} */
  number() {
    let value = 0;
    for (let i = 0; i < LONGEST_NUMBER; i++) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80 && value < 2 ** 32) return value;
      if (byte < 0x80) break;
    }
    return refuseTwin('it has a number of more than 32 bits');
  }

  /** The length of a list. @param {keyof typeof FORM} most the limit's name in the form */
  count(most) {
    const count = this.number();
    if (count > Number(FORM[most]) || count > this.end - this.at)
      refuseTwin('it has a list that is too long');
    return count;
  }

  /** @param {keyof typeof FORM} most */
  numbers(most) {
    return Array.from({ length: this.count(most) }, () => this.number());
  }

  /** What follows a number of bytes. */
  part() {
    const size = this.number();
    if (size > this.end - this.at) refuseTwin('it is cut off');
    this.at += size;
    return new WasmReader(this.code, this.at - size, this.at);
  }

  text() {
    const { at, end } = this.part();
    return new TextDecoder().decode(this.code.subarray(at, end));
  }

  finish() {
    if (this.at !== this.end) refuseTwin('a section is longer than what it holds');
  }
}

/** By name. @param {Uint8Array} code @returns {Record<string, WasmReader>} */
function sectionsOf(code) {
  if (`${code.subarray(0, HEADER_BYTES)}` !== WASM_HEADER)
    refuseTwin('it is no WebAssembly module of version 1');
  /** @type {Record<string, string>} */
  const names = FORM.sections;
  const whole = new WasmReader(code, HEADER_BYTES, code.length);
  /** @type {Record<string, WasmReader>} */
  const sections = {};
  for (let last = 0; whole.at < whole.end; ) {
    const number = whole.byte();
    if (!Object.hasOwn(names, number))
      refuseTwin(`it has a section of kind ${number}, which no twin has`);
    if (number <= last) refuseTwin('its sections are out of order');
    sections[names[number]] = whole.part();
    last = number;
  }
  for (const name of Object.values(names))
    if (!Object.hasOwn(sections, name)) refuseTwin(`it has no section of ${name}`);
  return sections;
}

/**
 * The memory alone. Its limits are where the plan says, because a runtime changes that byte.
 * @param {WasmReader} section @param {Twin} twin
 */
function checkImport(section, { memory_flag: flag }) {
  const { module, name, kind, limits } = FORM.import;
  if (section.number() !== 1 || section.text() !== module || section.text() !== name)
    refuseTwin('it imports something else than env.memory');
  const isMemory = section.byte() === kind;
  const { at } = section;
  if (!isMemory || section.byte() !== limits || at !== flag)
    refuseTwin('its memory is not the one that plan.json describes');
  section.number();
  section.number();
  section.finish();
}

/** @param {WasmReader} section @returns {FunctionType[]} */
function typesOf(section) {
  const types = [];
  for (let left = section.count('mostTypes'); left; left--) {
    if (section.byte() !== FUNCTION_TYPE) refuseTwin('it has a type that is no function');
    types.push({ params: section.numbers('mostParams'), results: section.numbers('mostParams') });
  }
  section.finish();
  return types;
}

/**
 * @param {WasmReader} section @param {Plan} plan
 * @param {(FunctionType | undefined)[]} functions the type of each
 */
function checkExports(section, plan, functions) {
  const { needed, allowed } = exportNames(plan);
  const wanted = `${FORM.export.params} -> ${FORM.export.results}`;
  const there = new Set();
  for (let left = section.count('mostFunctions'); left; left--) {
    const name = section.text();
    const isFunction = section.byte() === FORM.export.kind;
    const type = functions[section.number()];
    if (!allowed.has(name) || there.has(name)) {
      const shown = name.slice(0, 40);
      refuseTwin(`it exports \`${shown}\`, which the plan does not have or which is there twice`);
    }
    if (!isFunction || !type) refuseTwin(`its export \`${name}\` is no function`);
    if (`${type?.params} -> ${type?.results}` !== wanted)
      refuseTwin(`\`${name}\` is of another type than entries are`);
    there.add(name);
  }
  section.finish();
  for (const name of needed) if (!there.has(name)) refuseTwin(`it has no function \`${name}\``);
}

/** The exports that a twin of this plan must have, and those that it may have. @param {Plan} plan */
function exportNames({ entries, twin: { checked = [] } = /** @type {Twin} */ ({}) }) {
  const needed = checked.map(name => `${name}/checked`);
  const allowed = new Set();
  for (const [name, { dispatches, guard, exchange }] of Object.entries(entries)) {
    needed.push(name);
    if (guard) needed.push(`${name}/guard`);
    if (exchange && !exchange.why) needed.push(`${name}/gradients`, `${name}/update`);
    for (const i of dispatches.keys())
      for (const part of ['', '/pack', '/finish']) allowed.add(`${name}/${i}${part}`);
    for (const i of guard?.dispatches.keys() ?? []) allowed.add(`${name}/guard/${i}`);
  }
  for (const name of needed) allowed.add(name);
  return { needed, allowed };
}

/** @param {WasmReader} section @param {number} functions */
function checkCode(section, functions) {
  const { mostFunctionBytes: mostBytes, mostLocals } = FORM;
  if (section.count('mostFunctions') !== functions)
    refuseTwin('it has more or fewer functions than it declares');
  for (let left = functions; left; left--) {
    const body = section.part();
    if (body.end - body.at > mostBytes)
      refuseTwin(`it has a function of more than ${mostBytes} bytes`);
    let locals = 0;
    for (let groups = body.count('mostLocals'); groups; groups--) {
      locals += body.number();
      body.byte();
    }
    if (locals > mostLocals) refuseTwin(`it has a function of more than ${mostLocals} locals`);
  }
  section.finish();
}

/** @param {string} what @returns {never} */
function refuseTwin(what) {
  return fail(
    'bundle',
    'twin.wasm',
    `is not a module that wgcc writes: ${what}; build the model again`,
  );
}
