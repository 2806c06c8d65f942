// Conversations as text: node chat_forms.mjs < {template, cases} > texts
import { text } from 'node:stream/consumers';
import { chatForm } from '../../runtime_js/tokens/chat_form.js';

const { template, cases } = JSON.parse(await text(process.stdin));
const form = chatForm(template);
const result = {
  texts: cases.map(messages => form.text(messages)),
  questions: cases.map(messages => form.question(messages)),
  stop: form.stop,
  unknown: chatForm('{{ messages }}') ?? null,
};
process.stdout.write(JSON.stringify(result));
