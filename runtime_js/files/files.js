// Weights and checkpoints, loaded when first used, and in the background of every training: other
// safetensors files, the model's values in and out, checkpoints in files and in the browser. A
// bundle's own weights, if the seal matches, are read without it.

export { loadParams, params, restore, save, state } from './checkpoint.js';
export { bundleAt, placeOf } from './places.js';
export { readTensors } from './safetensors.js';
export { bytesAt } from './sources.js';
export { inStorage, recall, store } from './storage.js';
export { builtSeed, storedValues } from './stored_values.js';
