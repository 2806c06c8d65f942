// Adapters in JavaScript: node adapters.mjs BUNDLE PEFT GGUF < {ids} > scores and files
import { openAsBlob, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [bundle, peft, gguf] = process.argv.slice(2);
const { ids, damaged } = JSON.parse(await text(process.stdin));
const { load } = await import(pathToFileURL(resolve(bundle, 'index.js')).href);
const model = await load({ device: 'wasm', threads: 1 });

const named = (name, content) => Object.assign(new Blob([content]), { name });
const config = readFileSync(join(peft, 'adapter_config.json'));
const weights = readFileSync(join(peft, 'adapter_model.safetensors'));
const files = [named('adapter_config.json', config), named('adapter_model.safetensors', weights)];

async function decoded() {
  await model.forget();
  const rows = [];
  for (const [i, id] of ids.entries()) {
    const { scores } = await model.decode({ id: Int32Array.of(id) });
    if (i % 5 === 0) rows.push(Array.from(scores));
  }
  return rows;
}
const codeOf = (config, weights) =>
  model.loadAdapter([named('c.json', config), named('w', weights)]).then(
    () => '',
    error => `${error.code}: ${error.message}`,
  );

const before = await decoded();
await model.loadAdapter(files);
const peftScores = await decoded();
const refused = [];
for (const [config, weights] of damaged)
  refused.push(await codeOf(config, Buffer.from(weights, 'base64')));
const afterRefusals = await decoded();
const saved = await model.saveAdapter({ base: 'some/model' });
const asGguf = await model.saveAdapter({ form: 'gguf', architecture: 'llama' });
const checkpoint = await model.save({ optimizer: false });
await model.loadAdapter(null);
const none = await decoded();
const again = {};
for (const [name, source] of Object.entries({
  gguf: await openAsBlob(gguf),
  ownGguf: asGguf['adapter.gguf'],
  ownPeft: Object.entries(saved).map(([name, bytes]) => named(name, bytes)),
  checkpoint,
})) {
  await model.loadAdapter(source);
  again[name] = await decoded();
}
await model.loadAdapter(files, { strength: 0.5 });
const half = await decoded();
const tooMany = await model.loadAdapter(files, { add: true }).catch(error => error.message);
await model.loadAdapter(null);
await model.loadAdapter(files, { strength: 0.5, add: true });
const added = await decoded();
const hex = Object.fromEntries(
  Object.entries({ ...saved, ...asGguf }).map(([name, bytes]) => [
    name,
    Buffer.from(bytes).toString('base64'),
  ]),
);
const result = JSON.stringify({
  before,
  peftScores,
  refused,
  afterRefusals,
  none,
  again,
  half,
  tooMany,
  added,
  files: hex,
});
process.stdout.write(result, () => process.exit(0));
