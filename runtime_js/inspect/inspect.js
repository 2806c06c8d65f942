// Loaded to inspect a model on the GPU: the self-test of its bundle, where a NaN came from, times
// per kernel, the fastest kernels for an adapter, and kernels for devices with subgroups.

export { blameCalls } from './blame.js';
export { selftest, verify } from './selftest.js';
export { kernelsFor } from './subgroups.js';
export { profile } from './timing.js';
export { tune } from './tune.js';
