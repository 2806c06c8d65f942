// Results of the JavaScript runtime for plans, drawn values and files, without a GPU, to compare
// with Python's: JSON in, JSON out.
//   node mirror.mjs < {"plans": [...], "draws": [...], "orders": [...], "files": [...], …}
import { readFileSync } from 'node:fs';
import { checkPlan } from '../../runtime_js/check/bundle.js';
import { convert } from '../../runtime_js/core/arrays.js';
import { initialValues } from '../../runtime_js/draw/initial.js';
import { namedWords } from '../../runtime_js/draw/named_words.js';
import { readTensors } from '../../runtime_js/files/safetensors.js';
import { shuffled } from '../../runtime_js/fit/shuffle.js';

const hex = words => Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString('hex');
const attempt = job => {
  try {
    return { value: job() };
  } catch (error) {
    return { code: error.code ?? `${error.stack}`, field: error.field };
  }
};
const {
  plans = [],
  draws = [],
  orders = [],
  files = [],
  texts = [],
  halves = [],
} = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(
  JSON.stringify({
    plans: plans.map(text => attempt(() => checkPlan(JSON.parse(text)).model.name)),
    draws: await Promise.all(
      draws.map(({ tensor, seed, name }) =>
        initialValues(tensor, seed, name).then(
          words => attempt(() => hex(words)),
          error => ({ code: error.code ?? `${error.stack}`, field: error.field }),
        ),
      ),
    ),
    orders: await Promise.all(
      orders.map(async ({ seed, count, epoch }) => Array.from(await shuffled(seed, count, epoch))),
    ),
    texts: texts.map(text => JSON.stringify(JSON.parse(text))),
    halves: hex(convert(halves, { dtype: 'f16' }) ?? new Uint32Array(0)),
    words: hex(namedWords(0xffffffff, 'a', 3, 0xffffffff)),
    files: files.map(data =>
      attempt(() =>
        Object.fromEntries(
          Object.entries(readTensors(Buffer.from(data, 'base64'), 'file').tensors).map(
            ([key, list]) => [key, Array.from(list, Number)],
          ),
        ),
      ),
    ),
  }),
);
