// A conversation in JavaScript: node chat.mjs BUNDLE < {template, options, questions} > answers
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [bundle] = process.argv.slice(2);
const { template, options, questions } = JSON.parse(await text(process.stdin));
const { load } = await import(pathToFileURL(resolve(bundle, 'index.js')).href);
const model = await load({ device: 'wasm', threads: 1 });

const codeOf = running =>
  running.then(
    () => '',
    error => error.code,
  );
const chat = await model.chat({ template, ...options });
const answers = [];
for (const question of questions) {
  const pieces = [];
  for await (const piece of chat.ask(question)) pieces.push(piece);
  answers.push({ pieces, leftOut: chat.leftOut, isCut: chat.isCut });
}
const refused = [
  await codeOf(chat.ask('a long message '.repeat(99)).next()),
  await codeOf(model.chat({ template: '{{ messages }}' })),
  await codeOf(model.chat({ template, top_k: 3 })),
];

/** After an answer that was aborted, the next is that of a model that read what was written. */
async function abortedAnswer() {
  const stopper = new AbortController();
  const calm = { template, temperature: 0, steps: 12 };
  const left = await model.chat(calm);
  let written = '';
  let name = '';
  try {
    for await (const piece of left.ask(questions[0], { signal: stopper.signal })) {
      written += piece;
      stopper.abort();
    }
  } catch (error) {
    name = error.name;
  }
  let after = '';
  for await (const piece of left.ask(questions[1])) after += piece;
  const other = await model.chat(calm);
  other.messages = left.messages.slice(0, 2);
  let fresh = '';
  for await (const piece of other.ask(questions[1])) fresh += piece;
  return { name, text: written, after, fresh };
}
const aborted = await abortedAnswer();
process.stdout.write(JSON.stringify({ answers, context: chat.context, refused, aborted }));
process.exit(0);
