// Calls of the JavaScript runtime's tokens, without a bundle: node token_calls.mjs < {tokenizers, …}
// Texts of growing length, long lists of ids, values of wrong types, prompts.
import { text } from 'node:stream/consumers';
import { generate } from '../../runtime_js/calls/generate.js';
import { Tokenizer } from '../../runtime_js/tokens/tokenizer.js';

/** The seconds of both texts. */
function times(tokenizer, small, large) {
  const seconds = given => {
    const start = performance.now();
    tokenizer.encode(given);
    return (performance.now() - start) / 1000;
  };
  seconds(small);
  return [Math.max(...[0, 1, 2].map(() => seconds(small))), seconds(large)];
}

/** What is said of a call. */
function said(call) {
  try {
    return call();
  } catch ({ name, code, message }) {
    return [name, code, message];
  }
}

/** A model that is one function. */
function sessionOf(tokenizer, call) {
  const vocab = { size: tokenizer.size };
  const entries = { decode: { inputs: { id: 't' }, outputs: { id: 't' }, ranges: {} } };
  const plan = { entries, tensors: { t: { dtype: 'i32', shape: [1] } }, model: { vocab } };
  const tokens = async () => ({ openTokens: () => tokenizer });
  return { plan, bundle: { plan, tokens }, machine: {}, call };
}

/** What a model writes that knows a word and the token behind a text. */
async function writtenUntil(tokenizer, stop) {
  const [word] = tokenizer.encode('model', { special: false });
  const [end] = tokenizer.encode('[SEP]', { special: false });
  const call = async (_, { id }) => ({ id: [id[0] === word ? end : word] });
  const options = { steps: 4, stop: stop === 'id' ? end : stop };
  let found = '';
  for await (const piece of generate(sessionOf(tokenizer, call), 'the', options)) found += piece;
  return found.trim();
}

/** The ids that a model reads of a prompt. */
async function read(tokenizer, prompt) {
  const ids = [];
  const written = [];
  const call = async (_, { id }) => {
    ids.push(...id);
    return { id: [9] };
  };
  try {
    const session = sessionOf(tokenizer, call);
    for await (const piece of generate(session, prompt, { steps: 1 })) written.push(piece);
    return written.length ? ids : [];
  } catch ({ code, message }) {
    return [code, message];
  }
}

const { grown, bytes, wide, bert } = JSON.parse(await text(process.stdin));
const measured = [];
for (const { file, small, large } of grown)
  measured.push(times(await Tokenizer.open(file), small, large));
const tokenizer = await Tokenizer.open(bytes.file);
const shown = tokenizer.decode(Array(bytes.count).fill(bytes.id));
const wrong = [
  () => tokenizer.encode(5),
  () => tokenizer.encode(),
  () => tokenizer.encode(Symbol('a')),
  () => tokenizer.decode(),
  () => tokenizer.decode(null),
  () => tokenizer.decode(['a']),
  () => tokenizer.decode([1.5]),
  () => tokenizer.decode(7),
].map(said);
const plain = await Tokenizer.open(wide);
const ended = await Tokenizer.open(bert);
const prompts = [
  await read(ended, 'the model'),
  await read(ended, ''),
  await read(plain, ''),
  await read(plain, 'é'),
  await read(plain, 5),
];
const until = [];
for (const stop of [undefined, '[SEP]', 'id', ['x', '[SEP]'], 'model'])
  until.push(await writtenUntil(ended, stop));
const shownOnce = [...new Set(shown)];
const { size } = plain;
const { length } = shown;
console.log(
  JSON.stringify({ times: measured, shown: shownOnce, length, wrong, size, prompts, until }),
);
