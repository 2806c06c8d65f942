// `generate`: what a language model writes after a prompt. Its entry takes one id and returns the
// next, or the scores of all; what it read before is in its state. Mirrors writing.py.

import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { elementCount, isFloat } from '../core/plan.js';
import { filterRecord, ownOf } from '../core/records.js';
import { alphabetOf, checkedText } from './alphabet.js';
import { chooseId } from './choose.js';
import { chunkOf, PREFILL } from './prefill.js';
import { untilStop } from './stop.js';

/** @import { Alphabet, AlphabetStream } from './alphabet.js' */
/** @import { Plan, Tensor } from '../core/plan.js' */
/** @import { Session } from '../core/session.js' */
/**
 * @typedef {object} GenerateOptions see index.d.ts of a bundle
 * @property {number} [steps] @property {number} [maxLength]
 * @property {string | number | (string | number)[]} [stop]
 * @property {number} [temperature] @property {number} [topK] @property {number} [topP]
 * @property {number} [minP] @property {number} [repetitionPenalty]
 * @property {number[]} [context] @property {number} [seed] @property {AbortSignal} [signal]
 * @property {string} [entry] @property {Record<string, any>} [inputs]
 */

/** Steps, if neither those nor a length are given. */
const STEPS = 200;
const TEMPERATURE = 0.8;
/** Options that an entry may take as inputs, by their names there. */
const CHOICES = /** @type {const} */ ({
  temperature: 'temperature',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  seed: 'seed',
});
const OPTIONS = [
  ...Object.keys(CHOICES),
  'steps',
  'maxLength',
  'stop',
  'context',
  'signal',
  'entry',
  'inputs',
];

/** What writes now. @type {WeakMap<Session, GenerateOptions>} */
const writing = new WeakMap();

/** @typedef {{ids: number[], isAtEnd: boolean}} Read what the model has read; whether all steps were made */

/**
 * @param {Session} session @param {string | number[]} prompt @param {GenerateOptions} [given]
 * @returns {AsyncGenerator<string, Read, void>}
 */
export async function* generate(session, prompt, given = {}) {
  await checkOptions(given);
  const options = { ...given };
  claim(session, options);
  try {
    return yield* written(session, prompt, options);
  } finally {
    if (writing.get(session) === options) writing.delete(session);
  }
}

/**
 * One text at a time: two would read each other's letters, because the state of the model is what
 * was read.
 * @param {Session} session @param {GenerateOptions} options
 */
function claim(session, options) {
  const other = writing.get(session);
  if (other && !other.signal?.aborted)
    fail(
      'busy',
      'generate',
      'writes on this model already: read it to its end, leave its loop or abort its signal',
    );
  writing.set(session, options);
}

/** @param {Session} session @param {string | number[]} prompt @param {GenerateOptions} options */
async function* written(session, prompt, options) {
  const writer = new Writer(session, options);
  const alphabet = await alphabetOf(session.bundle, writer.entryName, writer.ports.taken);
  const ids = await idsOf(prompt, alphabet);
  const { texts, ends } = await stopsOf(session.plan, alphabet, [options.stop ?? []].flat());
  const steps = options.steps ?? (options.maxLength ?? STEPS + ids.length) - ids.length;
  yield* untilStop(writer.letters(ids, steps, await alphabet.stream(ids), ends), texts);
  return { ids: writer.read, isAtEnd: writer.isAtEnd };
}

/** @param {string | number[]} prompt @param {Alphabet} alphabet */
async function idsOf(prompt, alphabet) {
  const isText = !Array.isArray(prompt);
  // The tokens that end a text are left out, because this one goes on.
  const ids = isText
    ? await alphabet.encode(checkedText(prompt, 'prompt'), { special: 'before' })
    : prompt;
  if (ids.length) return ids;
  const least = `needs at least one ${isText ? 'character' : 'id'}`;
  return fail('text', 'prompt', prompt.length ? "holds nothing of the model's vocabulary" : least);
}

/**
 * Texts, and ids: a special token is no part of a text, so that only its id can be seen.
 * @param {Plan} plan @param {Alphabet} alphabet @param {(string | number)[]} stops
 */
async function stopsOf(plan, alphabet, stops) {
  const texts = stops.filter(stop => typeof stop === 'string');
  const ends = new Set(stops.filter(stop => typeof stop === 'number'));
  for (const text of typeof plan.model.vocab === 'object' ? texts : []) {
    const ids = await alphabet.encode(text, { special: false });
    if (ids.length === 1 && !(await alphabet.decode(ids))) ends.add(ids[0]);
  }
  return { texts, ends };
}

/** @param {GenerateOptions} options */
async function checkOptions(options) {
  const unknown = filterRecord(Object(options), (_, name) => !OPTIONS.includes(name));
  if (Object.keys(unknown).length) (await loadCheck()).refuseOptions('generate', unknown, OPTIONS);
  const { steps = 1, maxLength = 1, topK = 1, temperature = 1, topP = 1, seed = 0 } = options;
  const { minP = 0, repetitionPenalty = 1 } = options;
  for (const [name, count] of Object.entries({ steps, maxLength, topK }))
    if (!(Number.isInteger(count) && count > 0))
      fail('range', name, `is a whole number above 0, not ${count}`);
  if (!(temperature >= 0 && temperature < Infinity))
    fail('range', 'temperature', `is a number from 0, not ${temperature}`);
  if (!(topP > 0 && topP <= 1)) fail('range', 'topP', `is above 0 and at most 1, not ${topP}`);
  if (!(minP >= 0 && minP <= 1)) fail('range', 'minP', `is from 0 to 1, not ${minP}`);
  if (!(repetitionPenalty > 0 && repetitionPenalty < Infinity))
    fail('range', 'repetitionPenalty', `is a number above 0, not ${repetitionPenalty}`);
  if (seed >>> 0 !== seed)
    fail('range', 'seed', `is a whole number from 0 to 4294967295, not ${seed}`);
}

/** One entry that writes. */
class Writer {
  /** @param {Session} session @param {GenerateOptions} options */
  constructor(session, options) {
    const { entry: entryName = 'decode', inputs = {} } = options;
    this.session = session;
    this.options = options;
    this.entryName = entryName;
    this.ports = portsOf(session.plan, entryName, inputs);
    this.fixed = this.#fixedInputs(inputs);
    /** Whether this chooses among the scores, not the entry. */
    this.chooses = this.#needsScores();
    /** Ids that were given to the model. */
    this.read = [...(options.context ?? [])];
    /** Whether all steps were made, and nothing ended the text before. */
    this.isAtEnd = false;
  }

  /** Options that are inputs of the entry, and its other inputs. @param {Record<string, any>} inputs */
  #fixedInputs(inputs) {
    const own = this.session.plan.entries[this.entryName].inputs;
    /** @type {Record<string, any>} */
    const given = Object.hasOwn(own, 'temperature') ? { temperature: TEMPERATURE } : {};
    for (const [option, port] of Object.entries(CHOICES)) {
      const value = /** @type {any} */ (this.options)[option];
      if (value !== undefined && Object.hasOwn(own, port)) given[port] = value;
    }
    return { ...given, ...inputs };
  }

  /** Options that the entry does not take need the scores. */
  #needsScores() {
    const { entryName, fixed, options } = this;
    const { given, scores } = this.ports;
    const missing = Object.entries(CHOICES).filter(
      ([option, port]) => Object.hasOwn(options, option) && !Object.hasOwn(fixed, port),
    );
    if (missing.length && !scores)
      fail(
        'text',
        missing[0][0],
        `has no effect: \`${entryName}\` chooses the next id itself. Give it an input ` +
          `\`${missing[0][1]}\`, or let it return the scores of all ids`,
      );
    return !given || missing.length > 0;
  }

  /**
   * @param {number[]} ids of the prompt @param {number} steps @param {AlphabetStream} stream
   * @param {Set<number>} ends ids that end the text
   */
  async *letters(ids, steps, stream, ends) {
    const { signal } = this.options;
    for (const id of ids.slice(await this.#readChunks(ids), -1)) {
      signal?.throwIfAborted();
      await this.#call(id);
    }
    let id = ids[ids.length - 1];
    for (let step = 0; step < steps; step++) {
      signal?.throwIfAborted();
      id = this.#next(await this.#call(id), step);
      if (ends.has(id)) break;
      yield stream.push(id);
      this.isAtEnd = step === steps - 1;
    }
    yield stream.end();
  }

  /** How many ids whole chunks have; the last id is not among them. @param {number[]} ids */
  async #readChunks(ids) {
    const { input, size } = chunkOf(this.session.plan, this.entryName);
    if (!size || Object.keys(this.fixed).length) return 0;
    let end = 0;
    for (; end + size < ids.length; end += size) {
      this.options.signal?.throwIfAborted();
      const part = ids.slice(end, end + size);
      this.read.push(...part);
      await this.#run(PREFILL, { [input]: Int32Array.from(part) });
    }
    return end;
  }

  /** @param {number} id */
  #call(id) {
    this.read.push(id);
    return this.#run(this.entryName, { ...this.fixed, [this.ports.taken]: [id] });
  }

  /** @param {string} entryName @param {Record<string, any>} inputs */
  async #run(entryName, inputs) {
    const { machine } = this.session;
    machine.signal = this.options.signal;
    try {
      return await this.session.call(entryName, inputs);
    } finally {
      machine.signal = undefined;
    }
  }

  /** @param {Record<string, any>} outputs @param {number} step */
  #next(outputs, step) {
    const { given, scores } = this.ports;
    if (!this.chooses) return outputs[given ?? ''][0];
    const { temperature = TEMPERATURE, topK = Infinity, topP = 1, seed = 0 } = this.options;
    const { minP = 0, repetitionPenalty = 1 } = this.options;
    const choice = { temperature, topK, topP, minP, repetitionPenalty };
    return chooseId(outputs[scores ?? ''], choice, seed, step, this.read);
  }
}

/**
 * The input that takes an id, and the outputs that return the next, or the scores of all.
 * @param {Plan} plan @param {string} entryName @param {Record<string, any>} inputs
 */
function portsOf({ entries, tensors }, entryName, inputs) {
  const entry = ownOf(entries, entryName);
  if (!entry) return fail('name', entryName, `is not an entry; there are: ${Object.keys(entries)}`);
  const ports = (
    /** @type {Record<string, string>} */ side,
    /** @type {(t: Tensor) => boolean} */ is,
  ) => Object.keys(side).filter(port => is(tensors[side[port]]));
  const chosen = Object.values(CHOICES).map(String);
  const taken = ports(entry.inputs, isId).filter(
    port => !Object.hasOwn(inputs, port) && !chosen.includes(port),
  );
  const given = ports(entry.outputs, isId);
  const isScores = (/** @type {Tensor} */ tensor) =>
    isFloat(tensor) &&
    elementCount(tensor.shape) > 1 &&
    tensor.shape.at(-1) === elementCount(tensor.shape);
  const scores = ports(entry.outputs, isScores);
  const same = given.find(port => port === taken[0]);
  const next = same ?? (given.length === 1 ? given[0] : undefined);
  if (taken.length !== 1 || (!next && (given.length || scores.length !== 1)))
    fail(
      'text',
      entryName,
      'cannot write text: it should take one integer, the id of a character, and return the next, ' +
        'or the scores of all ids',
    );
  return { taken: taken[0], given: next, scores: scores.length === 1 ? scores[0] : undefined };
}

/** @param {Tensor} tensor */
function isId(tensor) {
  return !isFloat(tensor) && tensor.dtype !== 'bool' && elementCount(tensor.shape) === 1;
}
