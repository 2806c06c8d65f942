// What the JavaScript runtime says of twins that wgcc did not write: a JSON list of bundles in, a
// list of messages out. None may be compiled, but the first, which is sound.
import { readFileSync } from 'node:fs';
import { open } from '../../runtime_js/core/loader.js';

const { compile } = WebAssembly;
const answers = [];
for (const { plan, twin } of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const code = new Uint8Array(Buffer.from(twin, 'base64'));
    const model = await open(
      { plan: JSON.parse(plan), kernels: async () => ({}), twin: () => code },
      { device: 'wasm', threads: 1 },
    );
    model.dispose();
    answers.push('loaded');
  } catch (error) {
    answers.push(error.code ? error.message : `${error.stack}`);
  }
  WebAssembly.compile = () => Promise.reject(new Error('it was compiled'));
}
WebAssembly.compile = compile;
process.stdout.write(JSON.stringify(answers));
