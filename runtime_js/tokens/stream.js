// The text of ids that come one by one: whole characters, although a token may end inside one.

/** @import { Tokenizer } from './tokenizer.js' */

/** What stands for bytes that are no character, or not yet one. */
const NO_CHARACTER = '\ufffd';

export class TokenStream {
  #tokenizer;
  /** Some whose text is written, because that of the next depends on them, then those that wait. */
  #ids;
  /** Of the first ids, how many are written, and as what. */
  #count;
  #written;

  /** @param {Tokenizer} tokenizer @param {number[]} context */
  constructor(tokenizer, context) {
    this.#tokenizer = tokenizer;
    this.#ids = context;
    this.#count = context.length;
    this.#written = tokenizer.decode(context);
  }

  /** What can be written with this id. @param {number} id */
  push(id) {
    this.#ids = [...this.#ids, id];
    const text = this.#tokenizer.decode(this.#ids);
    if (text.length <= this.#written.length || text.endsWith(NO_CHARACTER)) return '';
    return this.#write(text);
  }

  /** What was not yet a character. */
  end() {
    return this.#write(this.#tokenizer.decode(this.#ids));
  }

  /** @param {string} text of all ids */
  #write(text) {
    const added = text.slice(this.#written.length);
    this.#ids = this.#ids.slice(this.#count);
    this.#count = this.#ids.length;
    this.#written = this.#tokenizer.decode(this.#ids);
    return added;
  }
}
