// Reads JSON with pauses. Numbers keep their text: `1` and `1.0` are cells like those of a CSV file.
// Where the text is broken, the first token that does not fit is reported. Mirrors json_place.py.

import { pause } from './pause.js';

/** @import { Source } from './source.js' */
/** @typedef {any[] | Map<string, any>} Container */

const SPACE = /[ \t\r\n]*/y;
/** Without quotes, backslashes and control characters, but for escapes. */
const STRING = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\uffff]*)*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /true|false|null/y;
/** @type {Record<string, any>} */
const WORDS = { true: true, false: false, null: null };
/** Tokens between two looks at the clock. */
const TOKENS_PER_PAUSE = 1024;

export class JsonNumber {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/**
 * Lists, maps, strings, `JsonNumber`s, booleans and null.
 * @param {string} text @param {Source} source
 */
export async function parseJson(text, source) {
  const reader = new JsonReader(text);
  for (let tokens = 0; reader.next(); tokens++) if (tokens % TOKENS_PER_PAUSE === 0) await pause();
  if (reader.at < text.length || !reader.isComplete) {
    const before = text.slice(0, reader.at).split(/\r\n|\r|\n/);
    const column = [...before[before.length - 1]].length + 1;
    source.refuse('json-syntax', {}, before.length, column);
  }
  return reader.root[0];
}

/** Goes over the tokens with a stack of open containers instead of recursion. */
class JsonReader {
  at = 0;
  /** Holds the value. @type {any[]} */
  root = [];
  /** @type {Container[]} */
  #open = [];
  /** What may come next: value, value or ], key, key or }, colon, comma, end. */
  #expected = 'value';
  #key = '';

  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  get isComplete() {
    return this.#expected === 'end';
  }

  /** Takes one token; false at the end, and if it does not fit. */
  next() {
    this.#take(SPACE);
    const following = this.#step();
    if (following === undefined) return false;
    this.#expected = following;
    return true;
  }

  /** @returns {string | undefined} what may follow the token */
  #step() {
    const letter = this.text[this.at];
    switch (this.#expected) {
      case 'end':
        return undefined;
      case 'key':
        return this.#readKey();
      case 'key or }':
        return letter === '}' ? this.#close() : this.#readKey();
      case 'value':
        return this.#readValue(letter);
      case 'value or ]':
        return letter === ']' ? this.#close() : this.#readValue(letter);
      case 'colon':
        return this.#letter(letter === ':', 'value');
    }
    const isList = Array.isArray(this.#open[this.#open.length - 1]);
    if (letter === (isList ? ']' : '}')) return this.#close();
    return this.#letter(letter === ',', isList ? 'value' : 'key');
  }

  #readKey() {
    const token = this.#take(STRING);
    if (!token) return undefined;
    this.#key = stringOf(token);
    return 'colon';
  }

  /** @param {string | undefined} letter */
  #readValue(letter) {
    if (letter === '[' || letter === '{') {
      const container = letter === '[' ? [] : new Map();
      this.#add(container);
      this.#open.push(container);
      this.at++;
      return letter === '[' ? 'value or ]' : 'key or }';
    }
    const string = this.#take(STRING);
    const number = string ? '' : this.#take(NUMBER);
    const word = string || number ? '' : this.#take(WORD);
    if (string) this.#add(stringOf(string));
    else if (number) this.#add(new JsonNumber(number));
    else if (word) this.#add(WORDS[word]);
    else return undefined;
    return this.#after();
  }

  /** @param {any} value */
  #add(value) {
    const container = this.#open[this.#open.length - 1] ?? this.root;
    if (Array.isArray(container)) container.push(value);
    else container.set(this.#key, value);
  }

  #close() {
    this.#open.pop();
    this.at++;
    return this.#after();
  }

  #after() {
    return this.#open.length ? 'comma' : 'end';
  }

  /** @param {boolean} fits @param {string} following */
  #letter(fits, following) {
    if (!fits) return undefined;
    this.at++;
    return following;
  }

  /** @param {RegExp} pattern */
  #take(pattern) {
    pattern.lastIndex = this.at;
    const token = pattern.exec(this.text)?.[0] ?? '';
    this.at += token.length;
    return token;
  }
}

/** @param {string} token with its quotes @returns {string} */
function stringOf(token) {
  return token.includes('\\') ? JSON.parse(token) : token.slice(1, -1);
}
