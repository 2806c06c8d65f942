// Loaded to inspect a model on the GPU: the self-test of its bundle, where a NaN came from, times
// per kernel, and the fastest kernels for an adapter.

export { blameCalls } from './blame.js';
export { selftest, verify } from './selftest.js';
export { profile } from './timing.js';
export { tune } from './tune.js';
