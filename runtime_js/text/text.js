// Loaded when a language model first writes.

export { generate } from './generate.js';
