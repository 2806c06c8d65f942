// Large weights that no entry changes, which the host does not keep: node read_again.mjs BUNDLE
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [bundle] = process.argv.slice(2);
const { load } = await import(pathToFileURL(resolve(bundle, 'index.js')).href);

/** A file that counts how often it is read. */
class CountedFile extends Blob {
  reads = 0;
  stream() {
    this.reads++;
    return super.stream();
  }
}
const file = new CountedFile([readFileSync(join(bundle, 'weights.safetensors'))]);
const x = Float32Array.from({ length: 1500 }, (_, i) => Math.sin(i));
const seen = { reads: [], sums: [] };
async function note(model) {
  const { base } = await model.params(['base']);
  seen.reads.push(file.reads);
  seen.sums.push(base.reduce((sum, value) => sum + value, 0));
}

const model = await load({ device: 'wasm', threads: 1, weights: file });
await note(model);
for await (const _ of model.fit({ x }, { steps: 3 }));
const learned = (await model.params(['w'])).w;
const saved = await model.save();
await model.reset();
await note(model);
await model.restore(saved);
await note(model);
seen.isRestored = (await model.params(['w'])).w.every((value, i) => value === learned[i]);
await model.loadParams({ base: new Float32Array(1500 * 1500) }, { strict: false });
await note(model);
await model.snapshot();
await model.reset();
await note(model);
await model.loadParams({ base: new Float32Array(1500 * 1500) }, { strict: false });
await model.recover();
await note(model);
model.dispose();
process.stdout.write(JSON.stringify(seen));
process.exit(0);
