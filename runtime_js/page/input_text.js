// Inputs that are text, typed into a box: characters or tokens of the model's vocabulary.

/** What the model calls its characters; none if it has tokens. */
const vocabulary = hasTokens ? [] : [...(plan.model.vocab ?? '')];
/** See `model.tokens()`; only for models that have tokens. */
let tokens = null;

const idsOfText = text =>
  tokens
    ? tokens.encode(text, { special: false })
    : [...text].map(letter => Math.max(0, vocabulary.indexOf(letter)));
const textOfIds = ids =>
  tokens ? tokens.decode(ids, { special: true }) : ids.map(id => vocabulary[id]).join('');

/** The characters of a text that the model does not know, each once. */
const unknownIn = text =>
  hasTokens ? [] : [...new Set(text)].filter(letter => !vocabulary.includes(letter));
function unknownWords(letters) {
  if (!letters.length) return '';
  const shown = letters.map(letter => `“${letter}”`).join(', ');
  return `The model does not know ${shown}: it has ${countOf(vocabulary.length, 'character')}.`;
}

function makeTextBox(entry, key, parent, changed) {
  const size = elementCount(inputRow(entry, key));
  const label = make('label', `${key}, up to ${countOf(size, textUnit)}`, parent, {
    className: 'field note',
  });
  const box = make('textarea', '', label, { rows: 3, id: `text-${key}` });
  if (!hasTokens) box.maxLength = size;
  const warning = make('p', '', parent, { className: 'warning', role: 'alert' });
  box.oninput = () => {
    const unknown = unknownIn(box.value);
    warning.textContent = unknownWords(unknown) || lengthWords(idsOfText(box.value).length, size);
    if (!unknown.length) changed();
  };
  return {
    /** The end of the row repeats the last character or token. */
    row() {
      const ids = idsOfText(box.value);
      return Array.from({ length: size }, (_, i) => ids[Math.min(i, ids.length - 1)] ?? 0);
    },
    set(row) {
      box.value = textOfIds(row);
    },
  };
}
const lengthWords = (count, size) =>
  count > size ? `This is ${countOf(count, textUnit)}: the model reads the first ${size}.` : '';

page.when('loaded', async () => {
  if (hasTokens) tokens = await page.model.tokens();
});
