// The card of the data: reads what people bring, and asks what their files leave open. The rules of
// reading are those of the runtime's data.js; data_use.js then trains with what was read.

import { filesGiven } from '../data/files_given.js';
import { knownForm } from '../data/known_classes.js';
import { DataSource } from '../data/read.js';
import { listenForFiles } from './data_files.js';
import { drawPictures, drawRows, drawText, MOST_LETTERS } from './data_preview.js';
import {
  answerByReset,
  askAbout,
  builtData,
  clearMessages,
  drawData,
  isOnlyNames,
  isSameJson,
  isTrained,
  kindOf,
  offer,
  rowWords,
  START_ANEW,
  useBuilt,
  useFirst,
  useInvented,
  useRead,
  waitForData,
} from './data_use.js';
import { dataProblem } from './data_words.js';
import { $, guarded, h, put, show, withCode } from './elements.js';
import { settingOf } from './invented.js';
import { countOf, inputOf, inputsOf, inputWords, textUnit } from './ports.js';
import { page, rowInputs, trainer } from './state.js';

/** @import { SourceFile } from '../data/files_given.js' */
/** @import { Data } from '../data/result.js' */
/** @import { PathFile } from './data_files.js' */
/** @import { Column } from './data_preview.js' */
/** @import { Act } from './state.js' */

const panel = page.panel;

// ---- reading

/** @param {PathFile[]} chosen @param {any} [options] */
async function takeFiles(chosen, options = {}) {
  if (!chosen.length) return;
  panel.source = new DataSource(filesGiven(chosen));
  panel.label = panel.source.name;
  panel.options = options;
  $('missing').value = options.missing ?? 'drop';
  await readFiles();
}

/** Reads the files; then `use` decides what becomes of them. @param {Act} [use] */
async function readFiles(use = offerRead) {
  const reading = ++panel.readings;
  panel.afterReset = null;
  clearMessages();
  put('rows', `Reading ${panel.label} …`);
  await page.use(null);
  try {
    const read = await readWithOptions();
    if (reading !== panel.readings) return;
    await drawRead(read);
    if (reading !== panel.readings) return;
    await use();
  } catch (error) {
    if (reading === panel.readings) refuseFiles(error);
  }
}

/** A file with the columns of the page's own data is read as that was. */
async function readWithOptions() {
  const known = panel.built?.preparation;
  const hasSources = Object.values(known?.inputs ?? {}).some(({ sources }) => sources);
  if (!hasSources || Object.keys(panel.options).length) return readScaled({});
  try {
    return await readScaled({ preparation: known, missing: known.missing });
  } catch {
    return readScaled({ encode: true });
  }
}

/** Scales if a column needs it, unless a person chose. @param {any} more options */
async function readScaled(more) {
  const source = /** @type {DataSource} */ (panel.source);
  const options = { entry: trainer, values: settingValues(), ...more, ...panel.options };
  const read = await source.read(panel.form, options);
  const isScaled = options.scale ?? (!options.preparation && read.needsScaling.length > 0);
  $('scale').checked = isScaled;
  return isScaled && !options.scale ? source.read(panel.form, { ...options, scale: true }) : read;
}

/** A red message; Train stays off until there is data. @param {any} error */
function refuseFiles(error) {
  const { option, problem, preview } = error;
  panel.read = null;
  panel.isRefused = true;
  put('rows', `${panel.label} was not read.`);
  put('data-problem', withCode(dataProblem(error)));
  show({ 'data-problem': true });
  if (preview) {
    const uses = preview.columns.map(
      (/** @type {Column} */ { name, input }) => input ?? useOf(name),
    );
    drawRows(preview, uses, (i, input) => chooseUse(preview.columns, uses, i, input));
  }
  page.announce('running');
  if (option === 'decimal')
    askAbout('How are numbers written?', [
      ['1.5 (decimal point)', () => readWith({ decimal: '.' })],
      ['1,5 (decimal comma)', () => readWith({ decimal: ',' })],
    ]);
  if (problem === 'names-in-columns' && !panel.options.encode)
    askAbout('Shall names, dates and numbers with units become numbers?', [
      ['Turn them into numbers', () => readWith({ encode: true })],
    ]);
  if (option === 'unknown')
    askAbout('What about characters that the model does not know?', [
      ['Leave them out', () => readWith({ unknown: 'drop' })],
    ]);
}

/** The input that a person chose for a column. @param {string} name */
function useOf(name) {
  const { columns = {} } = panel.options;
  return Object.keys(columns).find(input => columns[input].includes(name)) ?? '';
}

/** Reads anew with other options, and no longer as a model knows its data. @param {any} options @param {Act} [use] */
function readWith(options, use) {
  panel.options = { ...panel.options, preparation: undefined, ...options };
  return readFiles(use);
}

/**
 * A column feeds another input; of an input with one column, the former one changes places.
 * @param {Column[]} columns @param {string[]} uses @param {number} chosen @param {string} input
 */
function chooseUse(columns, uses, chosen, input) {
  const changed = [...uses];
  const isSingle = input && panel.form.entry(trainer).inputs[input].rowSize === 1;
  const former = isSingle ? uses.indexOf(input) : -1;
  if (former >= 0) changed[former] = uses[chosen];
  changed[chosen] = input;
  /** @type {Record<string, string[]>} */
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

/** @param {Data} read */
async function drawRead(read) {
  const { source } = panel;
  panel.read = read;
  put('rows', `${panel.label}: ${rowWords(read.rows, read)}`);
  if (read.preview) {
    const uses = read.columns.map(({ input }) => input ?? '');
    drawRows(read.preview, uses, (i, input) => chooseUse(read.columns, uses, i, input));
  } else if (source && kindOf(read) === 'pictures')
    await drawPictures(source.files.filter(isShown), ({ path }) => path.at(-2) ?? path[0]);
  else if (source && kindOf(read) === 'text') drawText(await source.beginning(MOST_LETTERS));
  const left = read.dropped.map(
    ({ count, reason, first }) =>
      `${countOf(count, 'row')} left out: ${reason} (first in line ${first}).`,
  );
  const notes = [...left, ...read.notes];
  put(
    'data-notes',
    notes.map(note => h('li', withCode(note))),
  );
  show({
    'data-notes': notes.length,
    'data-options': read.preview,
    'missing-choice': read.dropped.length || panel.options.missing === 'mean',
  });
}
/** @param {SourceFile} file */
const isShown = ({ name, path }) =>
  /\.(png|jpe?g|gif|webp|bmp)$/i.test(name) && !path.some(part => part.startsWith('.'));

// ---- data for a model that has learned

/** Files that were read: the model starts anew with them, or goes on. */
const offerRead = () => offer(useRead, [['Go on learning, with this data', continueWith]]);

/** The new rows are prepared as the model knows them: same columns, classes and scaling. */
async function continueWith() {
  const known = page.model.preparation;
  if (!known || !panel.read?.preparation) return useRead();
  panel.options = { ...panel.options, preparation: known };
  const reading = panel.readings + 1;
  await readFiles(useRead);
  const isRefused = reading === panel.readings && !panel.read;
  if (!isRefused || panel.isAsking) return;
  panel.afterReset = () => readWith({}, useRead);
  askAbout('The model cannot go on with this data: choose other data, or', [
    [START_ANEW, () => page.reset()],
  ]);
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
  return panel.source ? offerRead() : offer(useBuilt);
}

// ---- the controls

/** A field for each input that is one number for all rows. */
const settingFields = () =>
  inputsOf(trainer)
    .filter(({ hasRows, tensor }) => !hasRows && !tensor.shape.length)
    .map(input => {
      const value = settingOf(input, 0);
      const onchange = guarded(() => panel.source && readFiles());
      const field = { type: 'number', step: 'any', name: input.key, value, onchange };
      return h('label', [`${input.key} `, h('input', [], field)]);
    });

/** What a row is made of. */
function takenWords() {
  const inputs = rowInputs.map(key => inputOf(trainer, key));
  if (inputs.every(({ isText, row }) => isText && row.length))
    return `text, in pieces of ${countOf(inputs[0]?.row[0] ?? 0, textUnit)}`;
  return inputs.map(input => `${inputWords(input)} (${input.key})`).join(' and ');
}

function drawShare() {
  put('held-out-share', `${$('held-out').value} %`);
}
function leaveShare() {
  panel.afterReset = null;
  $('held-out').value = panel.share;
  drawShare();
}

/** Data that is no file. @param {string} label @param {Act} use */
const take = (label, use) =>
  guarded(async () => {
    panel.readings++;
    panel.read = panel.source = panel.afterReset = null;
    clearMessages();
    put('rows', label);
    await page.use(null);
    return offer(use);
  });

function openPanel() {
  show({ data: trainer });
  if (!trainer) return;
  put('data-takes', takenWords());
  put('settings', settingFields());
  drawShare();
  // What the model knows when it starts anew; `continueWith` reads by what it has learned since.
  const { preparation } = page.model;
  panel.form = knownForm(panel.form, preparation, isTrained());
  panel.built = builtData();
  panel.names = isOnlyNames(preparation) ? preparation : null;
  show({ drop: rowInputs.length, built: panel.built });
  return useFirst();
}

export function dataCard() {
  page.when('loaded', openPanel);
  page.when('data', drawData);
  page.when('reset', answerByReset);
  page.when('values', checkKnown);
  $('held-out').oninput = drawShare;
  // Rows that the model has trained with must not become held-out ones.
  $('held-out').onchange = guarded(
    () => panel.read && page.data && offer(useRead, [['Leave the rows as they are', leaveShare]]),
  );
  $('scale').onchange = guarded(({ target }) => readWith({ scale: target.checked }));
  $('missing').onchange = guarded(({ target }) => readWith({ missing: target.value }));
  $('generate').onclick = take('Invented data', useInvented);
  $('built').onclick = take('The data of this page', useBuilt);
  panel.take = takeFiles;
  listenForFiles(takeFiles);
}
