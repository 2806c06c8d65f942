// The card of the data: reads what people bring, and asks what their files leave open. The rules of
// reading are those of the runtime's data.js; data_use.js then trains with what was read.

/** Advice for the command line, and what the page says instead. */
const ADVICE = [
  [/\? Give --target NAME; there are: .*$/s, '? Choose it in the table below.'],
  [/: give --decimal , or --decimal \.$/, '.'],
  [/: leave them out with --unknown drop$/, '.'],
  [/: choose (its columns|another column) with --.*$/s, ': choose $1 below.'],
  [/\. Choose them with --columns$/, '. Choose them in the table below.'],
  [/\. Name its classes with wgcc build --labels.*$/s, '.'],
  [/: rebuild with --set (\w+)=(\d+)$/, ': build the model with --set $1=$2, or bring more rows.'],
];

let dataForm = formOf(plan, () => page.model.tokens());
const rowInputs = trainer ? dataForm.entry(trainer).rows : [];
const learnedInput = trainer && dataForm.target(dataForm.entry(trainer));

const dataPanel = {
  /** The files, which can be read again with other options; null: invented or built in. */
  source: null,
  /** What was read, and what it is called. */
  read: null,
  label: '',
  /** What people chose. */
  options: {},
  /** Counts readings, because the result of an older one must not be used. */
  readings: 0,
  dataSeed: 1,
  /** The data that the bundle was built with. */
  built: null,
  /** Names of classes that it was built with, without data. */
  names: null,
  /** Percent of the rows that are held out. */
  share: '',
  /** Whether there is a question about the data that was read. */
  isAsking: false,
  /** What to train with once the model starts again; null: what it trains with now. */
  afterReset: null,
};

// ---- reading

async function takeFiles(chosen) {
  if (!chosen.length) return;
  dataPanel.source = new DataSource(filesGiven(chosen));
  dataPanel.label = dataPanel.source.name;
  dataPanel.options = {};
  $('missing').value = 'drop';
  await readFiles();
}

async function readFiles(use = offer) {
  const reading = ++dataPanel.readings;
  dataPanel.afterReset = null;
  clearMessages();
  $('rows').textContent = `Reading ${dataPanel.label} …`;
  await page.use(null);
  try {
    const read = await readWithOptions();
    if (reading !== dataPanel.readings) return;
    await showRead(read);
    if (reading !== dataPanel.readings) return;
    await use();
  } catch (error) {
    if (reading === dataPanel.readings) refuseFiles(error);
  }
}

/** Scales if a column needs it, unless a person chose. */
async function readWithOptions() {
  const options = { entry: trainer, values: settingValues(), ...dataPanel.options };
  const read = await dataPanel.source.read(dataForm, options);
  const isScaled = options.scale ?? (!options.preparation && read.needsScaling.length > 0);
  $('scale').checked = isScaled;
  return isScaled && !options.scale
    ? dataPanel.source.read(dataForm, { ...options, scale: true })
    : read;
}

/** A red message; Train stays off until there is data. */
function refuseFiles(error) {
  const { message, code, option, preview } = error;
  const text = code === 'data' ? message.replace('data: ', '') : message;
  dataPanel.read = null;
  $('rows').textContent = `${dataPanel.label} was not read.`;
  $('data-problem').hidden = false;
  $('data-problem').replaceChildren();
  putWithCode($('data-problem'), adviceOf(text));
  if (preview) {
    const { columns } = dataPanel.options;
    const uses = preview.columns.map(({ name, input }) => input ?? useIn(columns, name));
    showRows(preview, uses, (i, input) => chooseUse(preview.columns, uses, i, input));
  }
  if (option === 'decimal')
    askAbout('How are numbers written?', [
      ['1.5 (decimal point)', () => readWith({ decimal: '.' })],
      ['1,5 (decimal comma)', () => readWith({ decimal: ',' })],
    ]);
  page.announce('running');
  if (option === 'unknown')
    askAbout('What about characters that the model does not know?', [
      ['Leave them out', () => readWith({ unknown: 'drop' })],
    ]);
}
/** What a page says instead of a message of the command line. */
const adviceOf = text =>
  ADVICE.reduce((found, [pattern, advice]) => found.replace(pattern, advice), text);
const useIn = (columns, name) =>
  Object.keys(columns ?? {}).find(input => columns[input].includes(name)) ?? '';

/** Reads anew with other options, and no longer as a model knows its data. */
function readWith(options, use) {
  dataPanel.options = { ...dataPanel.options, preparation: undefined, ...options };
  return readFiles(use);
}

/** A column feeds another input; of an input with one column, the former one changes places. */
function chooseUse(columns, uses, chosen, input) {
  const changed = [...uses];
  const isSingle = input && dataForm.entry(trainer).inputs[input].rowSize === 1;
  const former = isSingle ? uses.indexOf(input) : -1;
  if (former >= 0) changed[former] = uses[chosen];
  changed[chosen] = input;
  const byInput = {};
  columns.forEach(({ name }, i) => {
    if (changed[i]) byInput[changed[i]] = [...(byInput[changed[i]] ?? []), name];
  });
  return readWith({ columns: byInput });
}

/** Numbers for the inputs that are no rows, such as a learning rate. */
const settingValues = () =>
  Object.fromEntries(
    Array.from($('settings').querySelectorAll('input'), ({ name, value }) => [name, +value]),
  );

// ---- what was read

async function showRead(read) {
  const { source } = dataPanel;
  dataPanel.read = read;
  $('rows').textContent = `${dataPanel.label}: ${countOf(read.rows, ...unitOf(read))}`;
  if (read.preview) {
    const uses = read.columns.map(({ input }) => input ?? '');
    showRows(read.preview, uses, (i, input) => chooseUse(read.columns, uses, i, input));
  } else if (kindOf(read) === 'pictures')
    await showPictures(source.files.filter(isShown), ({ path }) => path.at(-2) ?? path[0]);
  else if (kindOf(read) === 'text') showText(await source.beginning(MOST_LETTERS));
  const left = read.dropped.map(
    ({ count, reason, first }) =>
      `${countOf(count, 'row')} left out: ${reason} (first in line ${first}).`,
  );
  showNotes([...left, ...read.notes]);
  $('data-options').hidden = !read.preview;
  $('missing-choice').hidden = !read.dropped.length && dataPanel.options.missing !== 'mean';
}
const isShown = ({ name, path }) =>
  /\.(png|jpe?g|gif|webp|bmp)$/i.test(name) && !path.some(part => part.startsWith('.'));
const kindOf = ({ preparation }) =>
  Object.values(preparation?.inputs ?? {})
    .map(({ kind }) => kind)
    .find(kind => kind === 'pictures' || kind === 'text');

function showNotes(notes) {
  $('data-notes').hidden = !notes.length;
  for (const note of notes) putWithCode(make('li', '', $('data-notes')), note);
}

function clearMessages() {
  $('data-problem').hidden = true;
  hideQuestion();
  $('preview').hidden = true;
  $('data-options').hidden = true;
  $('data-notes').hidden = true;
  $('data-notes').replaceChildren();
  emptied($('preview'));
}

// ---- the controls

/** A field for each input that is one number for all rows. */
function showSettings() {
  for (const [name, id] of Object.entries(plan.entries[trainer].inputs)) {
    if (hasRows(trainer, name) || plan.tensors[id].shape.length) continue;
    const label = make('label', `${name} `, $('settings'));
    const value = settingOf(name, plan.tensors[id], 0);
    make('input', '', label, { type: 'number', step: 'any', name, value, onchange: readAgain });
  }
}
/** What a row is made of. */
function takenWords() {
  const isBook = rowInputs.every(key => isText(trainer, key) && inputRow(trainer, key).length);
  if (isBook) return `text, in pieces of ${countOf(inputRow(trainer, rowInputs[0])[0], textUnit)}`;
  return rowInputs.map(key => `${inputWords(trainer, key)} (${key})`).join(' and ');
}
const readAgain = guarded(() => {
  if (dataPanel.source) return readFiles();
});

page.when('loaded', () => {
  $('data').hidden = !trainer;
  if (!trainer) return;
  $('data-takes').textContent = takenWords();
  $('drop').hidden = !rowInputs.length;
  showSettings();
  showShare();
  // What the model knows when it starts anew; `continueWith` reads by what it has learned since.
  dataForm = knownForm(dataForm, page.model.preparation, isTrained());
  dataPanel.built = builtData();
  $('built').hidden = !dataPanel.built;
  dataPanel.names = isOnlyNames(page.model.preparation) ? page.model.preparation : null;
  return useFirst();
});
page.when('data', showData);
page.when('reset', answerByReset);
page.when('values', checkKnown);
const showShare = () => {
  $('held-out-share').textContent = `${$('held-out').value} %`;
};
$('held-out').oninput = showShare;
// Rows that the model has trained with must not become held-out ones.
$('held-out').onchange = guarded(
  () =>
    dataPanel.read &&
    page.data &&
    offer(useRead, null, [['Leave the rows as they are', leaveShare]]),
);
function leaveShare() {
  dataPanel.afterReset = null;
  $('held-out').value = dataPanel.share;
  showShare();
}
$('scale').onchange = guarded(({ target }) => readWith({ scale: target.checked }));
$('missing').onchange = guarded(({ target }) => readWith({ missing: target.value }));
/** Data that is no file. */
const take = (label, use) =>
  guarded(async () => {
    dataPanel.readings++;
    dataPanel.read = dataPanel.source = dataPanel.afterReset = null;
    clearMessages();
    $('rows').textContent = label;
    await page.use(null);
    return offer(use, null);
  });
$('generate').onclick = take('Invented data', useInvented);
$('built').onclick = take('The data of this page', useBuilt);
listenForFiles(takeFiles);
