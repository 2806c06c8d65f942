// The bundle inside this page, for the scripts below: `load(options)`, `plan`, `kernels`, `source`, and `files` of data.
const plan = __PLAN__;
const kernels = __KERNELS__;
const source = __SOURCE__;
const decoded = text => text && Uint8Array.from(atob(text), c => c.charCodeAt(0));
const weights = __WEIGHTS__;
const constants = __CONSTANTS__;
const seal = __SEAL__;
const files = __FILES__;
const load = options => wgcc.open({ plan, kernels, constants, seal, weights: () => decoded(weights) }, options);
const randomUnits = (seed, name, count) => Array.from(more.namedWords(seed, name, count), word => word / 2 ** 32);
