// Inputs that are characters of the model's vocabulary, typed into a box.

const vocabulary = [...(plan.model.vocab ?? '')];

/** The characters of a text that the model does not know, each once. */
const unknownIn = text => [...new Set(text)].filter(letter => !vocabulary.includes(letter));
function unknownWords(letters) {
  if (!letters.length) return '';
  const shown = letters.map(letter => `“${letter}”`).join(', ');
  return `The model does not know ${shown}: it has ${countOf(vocabulary.length, 'character')}.`;
}

function makeTextBox(entry, key, parent, changed) {
  const size = elementCount(inputRow(entry, key));
  const label = make('label', `${key}, up to ${countOf(size, 'character')}`, parent, {
    className: 'field note',
  });
  const box = make('textarea', '', label, { maxLength: size, rows: 3, id: `text-${key}` });
  const warning = make('p', '', parent, { className: 'warning', role: 'alert' });
  box.oninput = () => {
    warning.textContent = unknownWords(unknownIn(box.value));
    if (!warning.textContent) changed();
  };
  return {
    /** The end of the row repeats the last character. */
    row() {
      const ids = [...box.value].map(letter => Math.max(0, vocabulary.indexOf(letter)));
      return Array.from({ length: size }, (_, i) => ids[Math.min(i, ids.length - 1)] ?? 0);
    },
    set(row) {
      box.value = row.map(id => vocabulary[id]).join('');
    },
  };
}
