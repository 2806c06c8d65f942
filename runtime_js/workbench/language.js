// Colours for programs. The checker knows more; this is what can be said of single words.

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { tags } from '@lezer/highlight';

const KEYWORDS = new Set(
  (
    'model layer fn entry dim const param state optimizer minimize with over return import from as ' +
    'test scan for in if else let seed use group assert grad vocab precision where and or not true false'
  ).split(' '),
);
const TYPES = new Set(['f32', 'f16', 'i32', 'u32', 'i8', 'u8', 'bool']);

/** The kind of the next word. @param {any} stream */
function token(stream) {
  if (stream.match(/^\/\/.*/)) return 'comment';
  if (stream.match(/^"[^"]*"?/)) return 'string';
  if (stream.match(/^\d[\w.]*/)) return 'number';
  const word = stream.match(/^[A-Za-z_]\w*/);
  if (!word) {
    stream.next();
    return null;
  }
  if (KEYWORDS.has(word[0])) return 'keyword';
  if (TYPES.has(word[0])) return 'typeName';
  return /^[A-Z]/.test(word[0]) ? 'className' : null;
}

const style = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--soft)' },
  { tag: tags.string, color: 'var(--text)' },
  { tag: tags.number, color: 'var(--number)' },
  { tag: tags.keyword, color: 'var(--keyword)' },
  { tag: [tags.typeName, tags.className], color: 'var(--name)' },
]);

export const wg = [
  StreamLanguage.define({ token, languageData: { commentTokens: { line: '//' } } }),
  syntaxHighlighting(style),
];
