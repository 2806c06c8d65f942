// What a visitor drops, as rows of ids and targets: what text_rows.py of the Python runtime does. Texts
// are packed one behind the other, and everyday conversations are mixed in, so that the model goes on
// chatting as before.

import { EVERYDAY } from './everyday.js';

const IGNORED = -100;

/**
 * @param {string} name @param {string} content of the file @param {any} tokens @param {any} form of
 *   conversations @param {number} length of a row
 */
export function lessonOf(name, content, tokens, form, length) {
  const texts = /\.(jsonl|ndjson)$/i.test(name)
    ? linesOf(content, tokens, form)
    : [plainText(content, tokens)];
  const learned = texts.flat().filter(([, isLearned]) => isLearned).length;
  if (learned < 2) throw new Error(`${name} holds nothing to learn`);
  const everyday = EVERYDAY.map(([question, answer]) =>
    conversation(
      [
        { role: 'user', content: question },
        { role: 'assistant', content: answer },
      ],
      tokens,
      form,
    ),
  );
  const [own, others] = [rowsOf(texts, length), rowsOf(everyday, length)];
  return {
    ids: Int32Array.from([...own.ids, ...others.ids]),
    targets: Int32Array.from([...own.targets, ...others.targets]),
    learned,
    rows: (own.ids.length + others.ids.length) / length,
  };
}

const plainText = (text, tokens) => ids(text, tokens).map(id => [id, true]);
const ids = (text, tokens) => Array.from(tokens.encode(text, { special: false }));

function linesOf(content, tokens, form) {
  return content.split('\n').flatMap((line, i) => {
    if (!line.trim()) return [];
    try {
      return [lineOf(JSON.parse(line), tokens, form)];
    } catch (error) {
      throw new Error(`line ${i + 1}: ${error.message}`);
    }
  });
}

function lineOf(value, tokens, form) {
  if (typeof value?.text === 'string') return plainText(value.text, tokens);
  const isMessage = message =>
    typeof message?.content === 'string' && ['system', 'user', 'assistant'].includes(message.role);
  if (!Array.isArray(value?.messages) || !value.messages.every(isMessage))
    throw new Error('a line is {"messages": [...]} or {"text": "..."}');
  return conversation(value.messages, tokens, form);
}

/** The answers, and their ends, are learned. */
function conversation(messages, tokens, form) {
  const begin = Array.from(tokens.encode('', { special: 'before' }), id => [id, false]);
  const pieces = form.pieces(messages);
  return [
    ...begin,
    ...pieces.flatMap(([text, isLearned]) => ids(text, tokens).map(id => [id, isLearned])),
  ];
}

/** Each token is a target once, but the first of a text. */
function rowsOf(texts, length) {
  const inputs = texts.flatMap(text => text.slice(0, -1).map(([id]) => id));
  const targets = texts.flatMap(text =>
    text.slice(1).map(([id, isLearned]) => (isLearned ? id : IGNORED)),
  );
  while (inputs.length % length) {
    inputs.push(0);
    targets.push(IGNORED);
  }
  return { ids: inputs, targets };
}
