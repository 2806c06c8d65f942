// Text, character by character: for models with a vocabulary and an entry that reads one character
// and returns the next.

const LETTERS = 200;
/** Milliseconds between texts that are written while the model learns. */
const WRITE_EVERY = 8000;

/** The entry that writes, its names, and the entry that forgets what was read. */
function findWriter() {
  for (const name of others) {
    const { inputs, outputs, writes } = plan.entries[name];
    const id = Object.keys(inputs).find(key => isText(name, key) && !inputRow(name, key).length);
    const out = Object.keys(outputs).find(
      key => isOneNumber(outputs[key]) && !isFloat(plan.tensors[outputs[key]]),
    );
    const forget = others.find(
      other =>
        !Object.keys(plan.entries[other].inputs).length &&
        plan.entries[other].writes.length &&
        plan.entries[other].writes.every(written => writes.includes(written)),
    );
    if (id && out) return { name, id, out, forget, settings: settingsOf(name, id) };
  }
}
const settingsOf = (name, id) => Object.keys(plan.entries[name].inputs).filter(key => key !== id);

const writer = findWriter();
/** The text that is being written; a newer one ends it. */
let writing = 0;
let wroteAt = 0;

async function write() {
  const mine = ++writing;
  wroteAt = performance.now();
  const prompt = $('prompt').value || '\n';
  const unknown = unknownIn(prompt);
  $('prompt-warning').textContent = unknownWords(unknown);
  if (unknown.length) return;
  $('written').replaceChildren();
  make('b', prompt.trimStart(), $('written'));
  const text = $('written').appendChild(document.createTextNode(''));
  $('write').textContent = 'Stop';
  try {
    for await (const letter of letters(prompt)) {
      if (mine !== writing) return;
      text.data += letter;
    }
  } finally {
    if (mine === writing) $('write').textContent = 'Write';
  }
}

/** What follows a prompt, without end. */
async function* letters(prompt) {
  const { name, id, out, forget, settings } = writer;
  if (forget) await page.model.call(forget, {});
  const step = async given => {
    const others = settings.map(key => [key, settingValue(key)]);
    const found = await page.model.call(name, { [id]: given, ...Object.fromEntries(others) });
    return found[out][0];
  };
  let next = 0;
  for (const letter of prompt) next = await step(vocabulary.indexOf(letter));
  for (let i = 0; i < LETTERS; i++) {
    yield vocabulary[next];
    next = await step(next);
  }
}
const settingValue = key => (key === 'temperature' ? Number($('temperature').value) : 1);

/** While the model learns, so that one sees it learn. */
function writeNowAndThen() {
  const isOver = $('write').textContent === 'Write';
  if (isOver && performance.now() - wroteAt > WRITE_EVERY) guarded(write)();
}

function stopWriting() {
  writing++;
  $('write').textContent = 'Write';
}
$('write').onclick = guarded(() => ($('write').textContent === 'Stop' ? stopWriting() : write()));
$('prompt').oninput = () => {
  $('prompt-warning').textContent = unknownWords(unknownIn($('prompt').value));
};
$('temperature').oninput = () => {
  $('temperature-shown').textContent = $('temperature').value;
};
