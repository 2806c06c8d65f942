// `model.chat`: a conversation with a language model that keeps what it read. Mirrors chat.py. It uses
// what every model has, so that the model may be in a worker.

import { fail } from '../core/errors.js';
import { loadCheck } from '../core/parts.js';
import { filterRecord, ownOf } from '../core/records.js';
import { chatForm } from './chat_form.js';

/** @import { Message } from './chat_form.js' */
/**
 * @typedef {object} ChatOptions see index.d.ts of a bundle
 * @property {string} template @property {string} [system]
 * @property {string | number | (string | number)[]} [stop]
 * @property {number} [steps] @property {number} [temperature] @property {number} [topK]
 * @property {number} [topP] @property {number} [minP] @property {number} [repetitionPenalty]
 * @property {number} [seed]
 */

/** An answer has as much room, at least, as a part of the cache. */
const ROOM = 4;
const ANSWER_STEPS = 1024;
/** Ids that are as quick to read as a chunk. */
const AS_QUICK = 3;
/** As in llama.cpp. */
const DEFAULTS = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, seed: 0 };
const CHOICES = [...Object.keys(DEFAULTS), 'repetitionPenalty'];
const OPTIONS = [...CHOICES, 'template', 'system', 'stop', 'steps'];

export class Chat {
  #model;
  #form;
  /** @type {(string | number)[]} */
  #stops;
  #steps;
  #choices;
  #counter;
  #chunk;
  #answers = 0;
  /** Ids in the cache. @type {number[]} */
  #read = [];
  /** @type {Message[]} */
  messages = [];
  /** How many of the oldest messages the model does not see. */
  leftOut = 0;
  /** Whether the last answer ended because the cache was full, or the number of steps reached. */
  isCut = false;

  /** @param {any} model @param {ChatOptions} options @param {number} chunk */
  constructor(model, options, chunk) {
    const { template, system = '', stop = [], steps = ANSWER_STEPS } = options;
    this.#model = model;
    this.#chunk = chunk;
    this.system = system;
    this.#form =
      chatForm(template) ??
      fail('text', 'template', 'has none of the marks of ChatML, Llama 3, Gemma and Phi 3');
    this.#stops = [this.#form.stop, ...[stop].flat()];
    this.#steps = steps;
    this.#choices = { ...DEFAULTS, ...filterRecord(options, (_, name) => CHOICES.includes(name)) };
    this.#counter = counterOf(model.plan);
    this.context = contextOf(model.plan);
  }

  /** Forgets all messages, and what the cache holds. */
  reset() {
    this.messages = [];
    this.leftOut = 0;
    this.#read = [];
  }

  /**
   * The answer, piece by piece. Leaving the loop, or aborting, ends it; what was written stays.
   * @param {string} text @param {{signal?: AbortSignal}} [options]
   * @returns {AsyncGenerator<string, void, void>}
   */
  async *ask(text, { signal } = {}) {
    /** @type {Message} */
    const question = { role: 'user', content: text };
    const { leftOut, ids } = await this.#shown([...this.messages, question]);
    const same = await this.#setBack(ids);
    const context = ids.slice(0, same);
    // The last id of an answer need not be read.
    const steps = Math.min(this.#steps, this.context - ids.length + 1);
    const seed = (this.#choices.seed + this.#answers++) % 2 ** 32;
    const options = { ...this.#choices, seed, steps, stop: this.#stops, context };
    const pieces = this.#model.generate(ids.slice(same), signal ? { ...options, signal } : options);
    let content = '';
    this.#read = context;
    try {
      for (;;) {
        const { done, value } = await pieces.next();
        if (done) {
          this.#read = value.ids;
          this.isCut = value.isAtEnd;
          break;
        }
        // With the first piece, all of the question was read.
        this.#read = ids;
        content += value;
        yield value;
      }
    } finally {
      await pieces.return(undefined);
      if (content || this.#read.length >= ids.length) {
        this.leftOut = leftOut;
        this.messages.push(question, { role: 'assistant', content });
      }
    }
  }

  /** How many messages must be left out, and the ids of the others. @param {Message[]} messages */
  async #shown(messages) {
    /** @type {number[]} */
    let ids = [];
    let leftOut = this.leftOut;
    for (; leftOut < messages.length; leftOut += 2) {
      ids = await this.#ids(messages.slice(leftOut));
      if (ids.length + Math.floor(this.context / ROOM) <= this.context) return { leftOut, ids };
    }
    if (ids.length < this.context) return { leftOut: leftOut - 2, ids };
    return fail(
      'text',
      'text',
      `the message is too long: with what stands around it, it has ${ids.length} tokens; the ` +
        `model's cache holds ${this.context} (build it with a larger S, such as --set S=2048)`,
    );
  }

  /** @param {Message[]} messages @returns {Promise<number[]>} */
  async #ids(messages) {
    /** @type {Message[]} */
    const system = this.system ? [{ role: 'system', content: this.system }] : [];
    const tokens = await this.#model.tokens();
    return tokens.encode(this.#form.question([...system, ...messages]), { special: 'before' });
  }

  /** Sets the cache back to what it has in common with these ids; at least one is read. @param {number[]} ids */
  async #setBack(ids) {
    const [used] = (await this.#model.state([this.#counter]))[this.#counter];
    // Values may have been replaced, by an adapter for example, and what was read be forgotten.
    const known = this.#read.slice(0, used);
    let same = 0;
    while (same < ids.length - 1 && same < known.length && known[same] === ids[same]) same++;
    same -= readAgain(ids.length - 1 - same, same, this.#chunk);
    await this.#model.loadParams({ [this.#counter]: Int32Array.of(same) }, { strict: false });
    return same;
  }
}

/** @param {any} model @param {ChatOptions} options @param {number} chunk ids that are read at once, or 0 */
export async function openChat(model, options, chunk) {
  const unknown = filterRecord(Object(options), (_, name) => !OPTIONS.includes(name));
  if (Object.keys(unknown).length) (await loadCheck()).refuseOptions('chat', unknown, OPTIONS);
  if (typeof options?.template !== 'string')
    fail('text', 'template', "is the text of the model's chat template: chat({ template })");
  return new Chat(model, options, chunk);
}

/**
 * How many known ids fill up the last chunk: to read it takes as long as a few ids one by one.
 * @param {number} rest @param {number} known @param {number} chunk
 */
function readAgain(rest, known, chunk) {
  const missing = chunk && (chunk - (rest % chunk)) % chunk;
  return missing <= known && missing < chunk - AS_QUICK ? missing : 0;
}

/** The state that `forget` sets to zero: how many tokens the cache holds. @param {any} plan */
function counterOf({ entries }) {
  const writes = ownOf(entries, 'forget')?.writes ?? [];
  if (writes.length === 1) return writes[0];
  return fail('text', 'forget', 'is no entry that empties a cache: the model cannot chat');
}

/** How many tokens the cache holds. @param {any} plan */
function contextOf({ entries }) {
  const checks = ownOf(entries, 'decode')?.range_guard?.checks;
  if (!checks) return fail('text', 'decode', 'fills no cache: the model cannot chat');
  return Math.min(...checks.map((/** @type {any} */ check) => check.high)) + 1;
}
