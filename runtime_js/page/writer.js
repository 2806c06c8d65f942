// Text, one character or token after the other: for models with a vocabulary and an entry that reads
// the id of one and returns the next.

const LETTERS = 200;
/** Of a text that is written while the model learns: its letters and milliseconds, at most. */
const LETTERS_WHILE_LEARNING = 120;
const MOST_WRITING = 2000;
/** Milliseconds between such texts; of the time, the share that they may take. */
const WRITE_EVERY = 3000;
const WRITE_SHARE = 0.1;

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
/** When the last one was begun and ended. */
let wroteFrom = 0;
let wroteTo = 0;
/** Resolves when the last one has ended. */
let textEnded = Promise.resolve();

function write(most = LETTERS) {
  textEnded = writeText(most);
  return textEnded;
}
async function writeText(most) {
  stopWriting();
  const prompt = $('prompt').value || '\n';
  const unknown = unknownIn(prompt);
  $('prompt-warning').textContent = unknownWords(unknown);
  if (unknown.length) return;
  const mine = new AbortController();
  writing = mine;
  wroteFrom = performance.now();
  $('written').replaceChildren();
  make('b', prompt.trimStart(), $('written'));
  const text = $('written').appendChild(document.createTextNode(''));
  $('write').textContent = 'Stop';
  try {
    for await (const letter of await letters(prompt, most, mine.signal)) text.data += letter;
  } finally {
    wroteTo = performance.now();
    if (writing === mine) stopWriting();
  }
}

async function letters(prompt, most, signal) {
  const { name, forget, isTempered } = writer;
  if (forget) await page.model.call(forget, {});
  const temperature = isTempered ? { temperature: Number($('temperature').value) } : {};
  return page.model.generate(prompt, { entry: name, steps: most, signal, ...temperature });
}

/**
 * While the model learns, so that one sees it learn. The training waits meanwhile: between its steps
 * a text would take many times as long.
 */
async function writeNowAndThen() {
  const pause = Math.max(WRITE_EVERY, (wroteTo - wroteFrom) / WRITE_SHARE);
  const isAsked = Boolean(writing);
  if (!isAsked && performance.now() - wroteTo < pause) return;
  if (!isAsked) guarded(() => write(LETTERS_WHILE_LEARNING))();
  const enough = isAsked ? 0 : setTimeout(stopWriting, MOST_WRITING);
  const stop = page.running?.signal;
  stop?.addEventListener('abort', stopWriting);
  await textEnded.catch(() => {});
  stop?.removeEventListener('abort', stopWriting);
  clearTimeout(enough);
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
