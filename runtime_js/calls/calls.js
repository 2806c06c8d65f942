// Loaded for calls that are not typed arrays of the entry's own size: any number of rows, nested
// arrays, pictures, GPU buffers; and for what is made of calls: validation, training steps in two
// halves, text and its ids.

export { openChat, tokens, tokensOf } from './alphabet.js';
export { captured } from './captured.js';
export { generate } from './generate.js';
export { callWith } from './gpu_call.js';
export { apply, gradients, undo } from './halves.js';
export { plainInputs } from './plain.js';
export { runRows } from './rows.js';
export { openValidation } from './validation.js';
