// Tables of the JavaScript runtime that Python's has too, as JSON.
import { CALLER_TYPES, INTEGER_RANGES } from '../../runtime_js/core/arrays.js';
import { CANDIDATE, DEFAULT_PROFILE, TUNED } from '../../runtime_js/core/device.js';
import { elementBytes, WORD_BYTES } from '../../runtime_js/core/plan.js';
import { DRAWS } from '../../runtime_js/draw/initial.js';
import { SEED_STATE } from '../../runtime_js/draw/start_words.js';
import { isOptimizerState } from '../../runtime_js/files/identity.js';
import { STORED_TYPES } from '../../runtime_js/files/safetensors.js';

const namesOf = types =>
  Object.fromEntries(Object.entries(types).map(([key, { name }]) => [key, name]));
const STATE_NAMES = ['opt/adam/exp_avg/l1.w', 'opt/adam/step', 'rng/seed', 'opt', 'opt.w', 'l1.w'];
process.stdout.write(
  JSON.stringify({
    wordBytes: WORD_BYTES,
    elementBytes: Object.fromEntries(
      Object.keys(CALLER_TYPES).map(dtype => [dtype, elementBytes(dtype)]),
    ),
    callerTypes: namesOf(CALLER_TYPES),
    integerRanges: INTEGER_RANGES,
    draws: Object.keys(DRAWS),
    storedTypes: namesOf(STORED_TYPES),
    optimizerState: Object.fromEntries(STATE_NAMES.map(name => [name, isOptimizerState(name)])),
    seedState: SEED_STATE,
    defaultProfile: DEFAULT_PROFILE,
    tuned: TUNED,
    candidate: CANDIDATE,
  }),
);
