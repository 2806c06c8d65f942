// Loaded when something is wrong, to say what: a bundle that is not as the compiler sealed it is
// checked before the first GPU call (a sound bundle that somebody changed by hand runs), and what a
// caller passed or an adapter lacks is named. Error codes and fields are those of Python's runtime.

export { refuseAdapter, refuseDevice, refuseMemory, refuseProfile } from './adapter.js';
export { checkBundle, checkPlan } from './bundle.js';
export { refuseFit, refuseInputs, refuseRows, refuseValue } from './callers.js';
export { sha256 } from './sha256.js';
