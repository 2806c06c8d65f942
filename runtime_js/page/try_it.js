// The card where a person tries the model: an entry that does not train, inputs that suit it, and
// what it returns.

/** Inputs with more numbers are taken from the data, not typed. */
const MOST_FIELDS = 24;
/** The choice that is no entry: see writer.js. */
const WRITE = 'write text';

const tryIt = {
  /** By input: see `makeFields`. */
  editors: {},
  seed: 1,
  isBusy: false,
  isStale: false,
  /** What the names of the fields were made for. */
  prepared: undefined,
};
const chosen = () => $('entry').value;
const isWriting = () => chosen() === WRITE;

/** Fields for the chosen entry, with a row of the data. */
function choose() {
  for (const editor of Object.values(tryIt.editors)) editor.close?.();
  tryIt.editors = {};
  tryIt.prepared = preparation();
  $('inputs').replaceChildren();
  $('outputs').replaceChildren();
  $('pictures-table').replaceChildren();
  $('curve').hidden = true;
  $('writer').hidden = !isWriting();
  $('numbers-in').hidden = isWriting();
  stopWriting();
  if (isWriting()) return;
  makeInputs(chosen());
  showExample();
}

function makeInputs(entry) {
  const keys = Object.keys(plan.entries[entry].inputs);
  for (const key of keys) {
    const make = editorOf(entry, key);
    tryIt.editors[key] = make(entry, key, $('inputs'), guarded(refresh));
  }
  $('takes').textContent = keys.length
    ? `Takes ${keys.map(key => inputWords(entry, key)).join(' and ')}.`
    : 'Takes nothing.';
  $('run').hidden = !plan.entries[entry].writes.length;
  $('other').hidden = !keys.length;
  $('many').hidden = !takesManyRows(entry);
  $('many-names').textContent = takesManyRows(entry) ? fieldNames(entry).join(', ') : '';
  $('many-table').replaceChildren();
}
function editorOf(entry, key) {
  const row = inputRow(entry, key);
  const size = elementCount(row);
  const range = integersIn(entry, key);
  if (isText(entry, key) && row.length) return makeTextBox;
  if (isOneHot(key)) return makeOneHotList;
  if (hasRows(entry, key) && pictureOf(row) && !range) return makePicture;
  if (range && size === 1 && rangeOf(range).high < 100) return makeClassList;
  return size <= MOST_FIELDS ? makeFields : makeFixed;
}
/** Inputs too long to type: a row of the data. */
function makeFixed(entry, key, parent) {
  let numbers = [];
  make('p', `${key}: ${inputWords(entry, key)}, from the data`, parent, { className: 'note' });
  return {
    row: () => numbers,
    set: row => {
      numbers = row;
    },
  };
}

function showExample() {
  const { rows, target } = exampleOf(chosen(), tryIt.seed++);
  for (const [key, editor] of Object.entries(tryIt.editors)) editor.set(rows[key]);
  $('target-shown').textContent = target === undefined ? '' : `In the data: ${target}.`;
  return guarded(refresh)();
}

/** The inputs of the chosen entry; it gets one row, or as many equal ones as it takes. */
function inputsNow(entry) {
  const { rows } = plan.entries[entry];
  const count = rows && !rows.outputs ? rows.count : 1;
  const arrays = Object.entries(tryIt.editors).map(([key, editor]) => {
    const row = editor.row();
    const times = hasRows(entry, key) ? count : 1;
    const type = CALLER_TYPES[tensorOf(entry, 'inputs', key).dtype];
    return [key, type.from({ length: times * row.length }, (_, i) => row[i % row.length])];
  });
  return Object.fromEntries(arrays);
}

async function predict() {
  const entry = chosen();
  const inputs = inputsNow(entry);
  const ports = curvePorts(entry);
  if (ports) await drawPredictionCurve(entry, ports);
  const outputs = await page.model.call(entry, inputs);
  if (entry === chosen()) showOutputs(entry, outputs, $('outputs'));
}
/** Predicts again, unless that would change the model's state; what comes meanwhile waits. */
async function refresh() {
  if (!others.length || isWriting() || plan.entries[chosen()].writes.length) return;
  tryIt.isStale = true;
  if (tryIt.isBusy) return;
  tryIt.isBusy = true;
  try {
    while (tryIt.isStale) {
      tryIt.isStale = false;
      await predict();
    }
  } finally {
    tryIt.isBusy = false;
  }
}

/** Entries that a person chooses from: not those that other cards use. */
function choices() {
  const inner = writer ? [writer.name, writer.forget] : [];
  const shown = others.filter(name => name !== evaluator && !inner.includes(name));
  return writer ? [WRITE, ...shown] : shown;
}

page.when('loaded', () => {
  const names = choices();
  for (const name of names) make('option', name, $('entry'), { selected: name === 'predict' });
  $('entry').hidden = names.length < 2;
  $('try').hidden = !names.length;
  if (!names.length) return;
  choose();
  if (isWriting()) guarded(write)();
});
page.when('data', () => {
  if ($('entry').options.length) choose();
});
page.when('learned', () => (isWriting() ? writeNowAndThen() : refresh()));
page.when('look', refresh);
// Predictions that change with each step are too many to be read aloud.
page.when('running', () => $('outputs').setAttribute('aria-live', page.running ? 'off' : 'polite'));
page.when('values', () => {
  if (!choices().length) return;
  if (isWriting()) guarded(write)();
  else if (tryIt.prepared !== preparation()) choose();
  else return refresh();
});
$('entry').onchange = () => choose();
$('other').onclick = showExample;
$('run').onclick = guarded(predict);
$('many-run').onclick = guarded(() => predictManyRows(chosen()));
$('many-decimal').onchange = $('many-run').onclick;
document.addEventListener(
  'paste',
  guarded(event => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => /^image/.test(type));
    const editor = Object.values(tryIt.editors).find(({ take }) => take);
    if (file && editor) return editor.take(file);
  }),
);
