// Error codes of the JavaScript runtime for malformed bundles: a JSON list of bundles in, a list of
// codes out. The GPU must not be used.
import { readFileSync } from 'node:fs';
import { open } from '../../runtime_js/core/loader.js';

const device = {
  requestAdapter() {
    throw { code: 'the GPU was asked for' };
  },
};
const answers = [];
for (const { plan, kernels, weights } of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const bundle = {
      plan: JSON.parse(plan),
      kernels: async () => kernels,
      weights: () => (weights == null ? undefined : Buffer.from(weights, 'base64')),
    };
    await open(bundle, { device });
    answers.push('loaded');
  } catch (error) {
    answers.push(error.code ?? `${error.stack}`);
  }
}
process.stdout.write(JSON.stringify(answers));
