// What load says without WebGPU, for programs and browsers described on the standard input.
import { readFileSync } from 'node:fs';
import { refuseAdapter } from '../../runtime_js/check/adapter.js';
import {
  adviceWithoutAdapter,
  adviceWithoutWebGpu,
  surroundings,
} from '../../runtime_js/check/browsers.js';

const messageOf = (...given) => {
  try {
    return refuseAdapter(...given);
  } catch ({ code, message }) {
    return { code, message };
  }
};
const scopes = JSON.parse(readFileSync(0, 'utf8'));
const requires = { features: [], limits: {} };
process.stdout.write(
  JSON.stringify({
    advice: scopes.map(scope => {
      const at = surroundings(scope);
      return [adviceWithoutWebGpu(at), adviceWithoutAdapter(at)];
    }),
    here: [
      messageOf({ requires, twin: {} }),
      messageOf({ requires }, {}),
      messageOf({ requires, twin: {} }, {}),
    ],
  }),
);
