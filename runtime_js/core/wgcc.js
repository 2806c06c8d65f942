// The runtime of wgcc bundles for browsers, Deno and Node: loads a bundle, trains and predicts on
// WebGPU, without any dependency. It mirrors wgcc_runtime in Python: same checks and error codes,
// same initial values, same checkpoint files. It knows plan.json and nothing of the compiler. What a
// page that trains does not need is in other files, which are loaded when first used: see parts.js.

export { CALLER_TYPES, INTEGER_RANGES, rangeOf } from './arrays.js';
export { WgccError } from './errors.js';
export { open } from './loader.js';
export { convertInSlices } from './long_arrays.js';
export { inSlices } from './pause.js';
export { elementCount, isFloat } from './plan.js';
export { ownOf } from './records.js';
export { decodeBase64 } from './seal.js';
export { randomWords } from './threefry.js';
