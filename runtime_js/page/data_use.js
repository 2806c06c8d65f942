// What the model trains with: files that were read, the data that the page was built with, or
// invented data. A model keeps how its data was prepared, so data must fit what it has learned.

/** Elements of invented data; more take long to draw. */
const MOST_GENERATED = 2 ** 20;
/** The file of a bundle that was built with data. */
const BUILT_DATA = 'data.safetensors';

/** When the page opens. */
async function useFirst() {
  const { built, names } = dataPanel;
  const known = page.model.preparation;
  if (built && (await isOf(built, known))) return useBuilt();
  return known && !names ? waitForData() : useInvented();
}
/** Whether a preparation is that of the data, or of its rows that are not held out. */
async function isOf(data, preparation) {
  if (isSameJson(preparation, data.preparation)) return true;
  const [train] = await partsOf(data);
  return isSameJson(preparation, train.preparation);
}

/** A model that learned from other data, as one that was restored: Train is off. */
async function waitForData() {
  clearMessages();
  dataPanel.afterReset = dataPanel.built ? useBuilt : useInvented;
  await page.use(null);
  $('rows').textContent = 'The model has learned from other data: choose it again to go on.';
}

/** The model's values may be of other data: then what to do with this data is asked. */
async function checkKnown() {
  if (!page.data) return;
  const { isInvented, train } = page.data;
  const known = page.model.preparation;
  const isKnown = isInvented ? isOnlyNames(known) : isSameJson(known, train.preparation ?? null);
  if (isKnown) return;
  if (isInvented) return waitForData();
  await page.use(null);
  return dataPanel.source ? offer() : offer(useBuilt, null);
}

/** Whether a preparation says nothing but names of classes. */
const isOnlyNames = preparation =>
  Object.values(preparation?.inputs ?? {}).every(
    ({ kind, columns }) => kind === 'classes' && !columns,
  );

/** In whatever order their keys are. */
function isSameJson(a, b) {
  const sorted = (_, value) =>
    value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort()) : value;
  return JSON.stringify(a, sorted) === JSON.stringify(b, sorted);
}

/**
 * New data for a model that has learned from other data: starts anew, or asks. `goOn` continues with
 * it, if that is possible; `more` are other answers.
 */
function offer(use = useRead, goOn = continueWith, more = []) {
  if (!page.step) return use();
  const steps = countOf(page.step, 'step');
  dataPanel.afterReset = use;
  const answers = [[START_ANEW, () => page.reset()], ...more];
  if (goOn) answers.push(['Go on learning, with this data', goOn]);
  askAbout(`The model has made ${steps} with other data. How shall it go on?`, answers);
}
const START_ANEW = 'Start anew with this data';

/** A model that starts again can learn from whatever there is: that answers the question. */
async function answerByReset() {
  const use = dataPanel.afterReset;
  dataPanel.afterReset = null;
  if (!use) return;
  hideQuestion();
  await use();
}

/** The new rows are prepared as the model knows them: same columns, classes and scaling. */
async function continueWith() {
  const known = page.model.preparation;
  if (!known || !dataPanel.read.preparation) return useRead();
  dataPanel.options = { ...dataPanel.options, preparation: known };
  const reading = dataPanel.readings + 1;
  await readFiles(useRead);
  const isRefused = reading === dataPanel.readings && !dataPanel.read;
  if (isRefused && !dataPanel.isAsking) offerOnlyAnew();
}
/** The data does not fit what the model knows. */
function offerOnlyAnew() {
  const readAnew = () => readWith({}, useRead);
  dataPanel.afterReset = readAnew;
  askAbout('The model cannot go on with this data: choose other data, or', [
    [START_ANEW, () => page.reset()],
  ]);
}

/** The rows to train with, and those that are held out, or null. */
function partsOf(data) {
  const { rows, preparation } = data;
  const share = Number($('held-out').value) / 100;
  const batch = plan.entries[trainer].rows?.count ?? 1;
  const count = Math.round(share * rows);
  // Rows of tables, pictures and text are repeated where there are fewer than a batch.
  const canSplit = count > 0 && rows - count >= (preparation ? 1 : batch);
  return canSplit ? data.split(share) : [data, null];
}

async function useRead() {
  const { read, label, readings } = dataPanel;
  dataPanel.afterReset = null;
  dataPanel.share = $('held-out').value;
  const [train, held] = await partsOf(read);
  if (readings !== dataPanel.readings) return;
  page.model.preparation = train.preparation;
  $('held-out-choice').hidden = false;
  await page.use({ train, heldOut: held?.arrays ?? null, label, isInvented: false });
}

function useInvented() {
  dataPanel.afterReset = null;
  const elements = Object.values(plan.entries[trainer].inputs).reduce(
    (sum, id) => sum + elementCount(plan.tensors[id].shape),
    0,
  );
  const batches = Math.max(1, Math.min(8, Math.floor(MOST_GENERATED / elements)));
  const train = generated(trainer, dataPanel.dataSeed++, batches);
  const heldOut = generated(trainer, dataPanel.dataSeed++, 1);
  page.model.preparation = dataPanel.names;
  $('held-out-choice').hidden = true;
  return page.use({ train, heldOut, label: 'invented', isInvented: true });
}

function useBuilt() {
  dataPanel.read = dataPanel.built;
  dataPanel.label = 'The data of this page';
  const preview = previewOfArrays(dataPanel.built);
  const inputs = preview?.columns.map(({ input }) => input);
  if (preview) showRows(preview, inputs, null);
  return useRead();
}

/** The data that the bundle was built with, if it was. */
function builtData() {
  if (!ownOf(files, BUILT_DATA)) return null;
  const { tensors, preparation } = readTensors(files[BUILT_DATA], BUILT_DATA);
  const isWhole = Object.keys(plan.entries[trainer].inputs).every(key => ownOf(tensors, key));
  if (!isWhole) return null;
  const rows = rowCount(trainer, tensors);
  const ownScaling = Boolean(preparation) && !isTrained();
  const facts = { preparation, rows, withRows: rowInputs, notes: [], ownScaling };
  return new Data({ ...facts, arrays: { ...tensors } });
}
/** Whether the bundle was built with trained weights, which go on with the scaling they know. */
const isTrained = () => plan.weights?.seed === undefined;

/** What a row is to people: one, and many of them. */
const unitOf = data =>
  ({ pictures: ['picture'], text: ['piece of text', 'pieces of text'] })[kindOf(data)] ?? ['row'];

function showData() {
  if (!page.data) return;
  const { train, heldOut, label, isInvented } = page.data;
  const rows = rowCount(trainer, arraysOf(train));
  $('rows').replaceChildren();
  if (isInvented) make('span', 'invented', $('rows'), { className: 'badge' });
  const held = heldOut && !isInvented ? rowCount(trainer, heldOut) : 0;
  const text = held ? `, and ${countOf(held, ...unitOf(train))} held out` : '';
  $('rows').append(
    isInvented
      ? `${countOf(rows, 'row')} of made-up numbers, only to show that training works`
      : `${label}: ${countOf(rows, ...unitOf(train))} to learn from${text}`,
  );
}

/** A question in the page; `answers` are texts and what they do. */
function askAbout(text, answers) {
  const box = $('data-question');
  dataPanel.isAsking = true;
  box.replaceChildren();
  make('p', text, box);
  const row = make('div', '', box, { className: 'row' });
  for (const [answer, act] of answers)
    make('button', answer, row, {
      onclick: guarded(() => {
        hideQuestion();
        return act();
      }),
    });
  box.hidden = false;
  page.announce('running');
}
function hideQuestion() {
  dataPanel.isAsking = false;
  $('data-question').hidden = true;
}
