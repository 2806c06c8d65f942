// Text, one character or token after the other: for models with a vocabulary and an entry that reads
// the id of one and returns the next.

const LETTERS = 200;
/** Milliseconds between texts that are written while the model learns. */
const WRITE_EVERY = 8000;

/** The entry that writes, whether it takes a temperature, and the entry that forgets what was read. */
function findWriter() {
  const name = ['decode', ...others].find(
    entry => others.includes(entry) && readsOneCharacter(entry) && returnsOneCharacter(entry),
  );
  if (!name) return;
  const forget = others.find(entry => isForgetting(entry, plan.entries[name].writes));
  return { name, forget, isTempered: ownOf(plan.entries[name].inputs, 'temperature') };
}
const readsOneCharacter = entry =>
  Object.keys(plan.entries[entry].inputs).some(
    key => isText(entry, key) && elementCount(inputRow(entry, key)) === 1,
  );
const returnsOneCharacter = entry =>
  Object.values(plan.entries[entry].outputs).some(
    id => !isFloat(plan.tensors[id]) && elementCount(plan.tensors[id].shape) === 1,
  );
/** An entry without inputs that changes only what the writing entry changes. */
function isForgetting(entry, written) {
  const { inputs, writes } = plan.entries[entry];
  return !Object.keys(inputs).length && writes.length && writes.every(id => written.includes(id));
}

const writer = findWriter();
/** Of the text that is being written; null: none. */
let writing = null;
let wroteAt = 0;

async function write() {
  stopWriting();
  const prompt = $('prompt').value || '\n';
  const unknown = unknownIn(prompt);
  $('prompt-warning').textContent = unknownWords(unknown);
  if (unknown.length) return;
  const mine = new AbortController();
  writing = mine;
  wroteAt = performance.now();
  $('written').replaceChildren();
  make('b', prompt.trimStart(), $('written'));
  const text = $('written').appendChild(document.createTextNode(''));
  $('write').textContent = 'Stop';
  try {
    for await (const letter of await letters(prompt, mine.signal)) text.data += letter;
  } finally {
    if (writing === mine) stopWriting();
  }
}

async function letters(prompt, signal) {
  const { name, forget, isTempered } = writer;
  if (forget) await page.model.call(forget, {});
  const temperature = isTempered ? { temperature: Number($('temperature').value) } : {};
  return page.model.generate(prompt, { entry: name, steps: LETTERS, signal, ...temperature });
}

/** While the model learns, so that one sees it learn. */
function writeNowAndThen() {
  if (!writing && performance.now() - wroteAt > WRITE_EVERY) guarded(write)();
}

function stopWriting() {
  writing?.abort();
  writing = null;
  $('write').textContent = 'Write';
}
$('temperature-choice').hidden = !writer?.isTempered;
$('write').onclick = guarded(() => (writing ? stopWriting() : write()));
$('prompt').oninput = () => {
  $('prompt-warning').textContent = unknownWords(unknownIn($('prompt').value));
};
$('temperature').oninput = () => {
  $('temperature-shown').textContent = $('temperature').value;
};
