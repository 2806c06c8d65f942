// Loaded when something is wrong, to say what: a bundle whose seal does not match is checked before
// the first GPU call (it runs if it is valid), and errors name a wrong argument or what the adapter
// lacks. Error codes and fields are those of Python's runtime.

export { refuseAdapter, refuseDevice, refuseMemory, refuseProfile } from './adapter.js';
export { checkBundle, checkKernelTexts, checkPlan } from './bundle.js';
export {
  refuseCounts,
  refuseEntries,
  refuseFit,
  refuseInputs,
  refuseLoad,
  refuseOptions,
  refuseRows,
  refuseValidation,
  refuseValue,
} from './callers.js';
export { contentDigest } from './plan_digest.js';
export { sha256 } from './sha256.js';
export { checkTwinForm } from './twin_form.js';
