// What the JavaScript runtime makes of plans, drawn values and files, without a GPU: JSON in, JSON out.
//   node twin.mjs < {"plans": [...], "draws": [...], "orders": [...], "files": [...], "texts": [...], "halves": [...]}
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

// The runtime's files are ES modules wherever a package.json beside them says so, as in every bundle.
const folder = mkdtempSync(join(tmpdir(), 'wgcc-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
const runtime = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'runtime_js');
for (const name of ['wgcc.js', 'wgcc']) cpSync(join(runtime, name), join(folder, name), { recursive: true });
writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
const module = name => import(pathToFileURL(join(folder, name)).href);
const { convert, shuffled } = await module('wgcc.js'),
  { checkPlan } = await module('wgcc/check.js'),
  { readTensors } = await module('wgcc/files.js'),
  { initialValues, namedWords } = await module('wgcc/draw.js');

const hex = words => Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString('hex');
const attempt = job => {
  try {
    return { value: job() };
  } catch (error) {
    return { code: error.code ?? `${error.stack}`, field: error.field };
  }
};
const { plans = [], draws = [], orders = [], files = [], texts = [], halves = [] } = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(
  JSON.stringify({
    plans: plans.map(text => attempt(() => checkPlan(JSON.parse(text)).model.name)),
    draws: draws.map(({ tensor, seed, name }) => attempt(() => hex(initialValues(tensor, seed, name)))),
    orders: orders.map(({ seed, count, epoch }) => Array.from(shuffled(seed, count, epoch))),
    texts: texts.map(text => JSON.stringify(JSON.parse(text))),
    halves: hex(convert(halves, 'f16') ?? new Uint32Array(0)),
    words: hex(namedWords(0xffffffff, 'a', 3, 0xffffffff)),
    files: files.map(data =>
      attempt(() =>
        Object.fromEntries(
          Object.entries(readTensors(Buffer.from(data, 'base64'), 'file').tensors).map(([key, list]) => [
            key,
            Array.from(list, Number),
          ]),
        ),
      ),
    ),
  }),
);
