// Loaded for inputs that are not lists of numbers: nested arrays, pictures and GPU buffers, and for
// outputs that stay on the GPU.

export { callWith } from './gpu_call.js';
export { plainInputs } from './plain.js';
