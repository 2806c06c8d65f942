// Loaded when values are drawn from a seed: initial values, as Python draws them to the bit, because
// they use only the arithmetic that IEEE 754 fixes.

export { namedWords } from './named_words.js';
export { startWords } from './start_words.js';
