// Checkpoints of corrections in JavaScript: node corrections.mjs BUNDLE CHECKPOINT < inputs > results
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [bundle, checkpoint] = process.argv.slice(2);
const { ids, targets } = JSON.parse(await text(process.stdin));
const { load } = await import(pathToFileURL(resolve(bundle, 'index.js')).href);

const model = await load({ device: 'wasm' });
const bytes = readFileSync(checkpoint);
await model.restore(bytes);
const saved = await model.save();
const inputs = { ids: Int32Array.from(ids.flat()), targets: Int32Array.from(targets.flat()) };
const { loss } = await model.train(inputs);
const changed = await load({ device: 'wasm' });
await changed.restore(bytes);
const norm = (await changed.params())['base.norm.g'];
await changed.loadParams({ 'base.norm.g': norm.map(x => 2 * x) }, { strict: false });
const whole = (await changed.save()).byteLength;
const isSame = Buffer.compare(Buffer.from(saved), bytes) === 0;
const result = { isSame, loss: loss[0] ?? loss, whole, part: saved.byteLength };
process.stdout.write(JSON.stringify(result));
process.exit(0);
