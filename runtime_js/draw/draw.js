// Loaded when values are drawn from a seed: initial values, the same as Python's to the bit, because
// they use only arithmetic that IEEE 754 defines exactly.

export { namedWords } from './named_words.js';
export { startWords } from './start_words.js';
