// What the JavaScript runtime says to malformed bundles: a JSON list of bundles in, a list of error codes out.
// The GPU is one that must not be asked for.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const folder = mkdtempSync(join(tmpdir(), 'wgcc-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
const runtime = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'runtime_js');
for (const name of ['wgcc.js', 'wgcc']) cpSync(join(runtime, name), join(folder, name), { recursive: true });
writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
const { open } = await import(pathToFileURL(join(folder, 'wgcc.js')).href);

const device = {
  requestAdapter() {
    throw { code: 'the GPU was asked for' };
  },
};
const answers = [];
for (const { plan, kernels, weights } of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const bundle = { plan: JSON.parse(plan), kernels, weights: () => weights == null ? undefined : Buffer.from(weights, 'base64') };
    await open(bundle, { device });
    answers.push('loaded');
  } catch (error) {
    answers.push(error.code ?? `${error.stack}`);
  }
}
process.stdout.write(JSON.stringify(answers));
