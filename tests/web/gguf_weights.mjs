// The weights of a GGUF file as examples/smollm reads them: node gguf_weights.mjs FILE PLAN FACTS OUT
import { openAsBlob, readFileSync, writeFileSync } from 'node:fs';
import { weightsIn } from '../../examples/smollm/model_file.js';
import { answer } from './browser.mjs';

const [path, plan, facts, out] = process.argv.slice(2);
const file = Object.assign(await openAsBlob(path), { name: path });
const read = name => JSON.parse(readFileSync(name, 'utf8'));
try {
  const { weights } = await weightsIn([file], read(plan), read(facts));
  writeFileSync(out, Buffer.from(await weights.arrayBuffer()));
  answer({ error: '' });
} catch (error) {
  answer({ error: error.message });
}
