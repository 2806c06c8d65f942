// Encodes and decodes texts with the JavaScript runtime, without a bundle:
//   node token_cases.mjs < [{"tokenizer": PATH, "cases": PATH}, …]
// prints for each pair of files how many of its cases there are, and those that differ.
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { Tokenizer } from '../../runtime_js/tokens/tokenizer.js';

const read = path => JSON.parse(readFileSync(path, 'utf8'));

/** What the runtime makes of a case, and of its ids one by one. */
function found(tokenizer, { text: given, ids }) {
  const stream = tokenizer.stream();
  return {
    ids: tokenizer.encode(given),
    plain: tokenizer.encode(given, { special: false }),
    decoded: tokenizer.decode(ids),
    streamed: ids.map(id => stream.push(id)).join('') + stream.end(),
  };
}

async function compare({ tokenizer: file, cases }) {
  const tokenizer = await Tokenizer.open(read(file));
  const all = read(cases).cases;
  const wrong = [];
  for (const wanted of all) {
    const seen = found(tokenizer, wanted);
    const { ids, plain, decoded } = wanted;
    if (JSON.stringify(seen) !== JSON.stringify({ ids, plain, decoded, streamed: decoded }))
      wrong.push({ wanted, seen });
  }
  return { count: all.length, wrong: wrong.slice(0, 5) };
}

const asked = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(await Promise.all(asked.map(compare))));
