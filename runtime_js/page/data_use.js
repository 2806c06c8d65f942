// What the model trains with: files that were read, the data that the page was built with, or
// invented data. A model keeps how its data was prepared, so data must fit what it has learned.

import { elementCount } from '../core/plan.js';
import { ownOf } from '../core/records.js';
import { Data } from '../data/result.js';
import { readTensors } from '../files/safetensors.js';
import { files, plan } from './bundle.js';
import { clearPreview, drawRows, previewOfArrays } from './data_preview.js';
import { $, guarded, h, put, show } from './elements.js';
import { arraysOf } from './examples.js';
import { generated } from './invented.js';
import { countOf, rowCount } from './ports.js';
import { page, rowInputs, trainer } from './state.js';

/** @import { Act } from './state.js' */
/** @typedef {[string, Act]} Answer a text and what it does */

/** Elements of invented data; more take long to draw. */
const MOST_GENERATED = 2 ** 20;
/** The file of a bundle that was built with data. */
const BUILT_DATA = 'data.safetensors';
export const START_ANEW = 'Start anew with this data';

/** When the page opens. */
export async function useFirst() {
  const { built, names } = page.panel;
  const known = page.model.preparation;
  if (built && (await isOf(built, known))) return useBuilt();
  return known && !names ? waitForData() : useInvented();
}
/** Whether a preparation is that of the data, or of its rows that are not held out. @param {Data} data @param {any} preparation */
async function isOf(data, preparation) {
  if (isSameJson(preparation, data.preparation)) return true;
  const [train] = await partsOf(data);
  return isSameJson(preparation, train.preparation);
}

/** A model that learned from other data, as one that was restored: Train is off. */
export async function waitForData() {
  clearMessages();
  page.panel.afterReset = page.panel.built ? useBuilt : useInvented;
  await page.use(null);
  put('rows', 'The model has learned from other data: choose it again to go on.');
}

/** Whether a preparation says nothing but names of classes. @param {any} preparation */
export const isOnlyNames = preparation =>
  Object.values(preparation?.inputs ?? {}).every(
    ({ kind, columns }) => kind === 'classes' && !columns,
  );

/** In whatever order their keys are. @param {any} a @param {any} b */
export function isSameJson(a, b) {
  const sorted = (/** @type {string} */ _, /** @type {any} */ value) =>
    value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort()) : value;
  return JSON.stringify(a, sorted) === JSON.stringify(b, sorted);
}

/** New data for a model that may have learned from other data: it starts anew, or asks. @param {Act} use @param {Answer[]} [more] */
export function offer(use, more = []) {
  if (!page.step) return use();
  const steps = countOf(page.step, 'step');
  page.panel.afterReset = use;
  askAbout(`The model has made ${steps} with other data. How shall it go on?`, [
    [START_ANEW, () => page.reset()],
    ...more,
  ]);
}

/** A model that starts again can learn from whatever there is: that answers the question. */
export async function answerByReset() {
  const use = page.panel.afterReset;
  page.panel.afterReset = null;
  if (!use) return;
  hideQuestion();
  await use();
}

/** The rows to train with, and those that are held out, or null. @param {Data} data @returns {Promise<[Data, Data | null]>} */
async function partsOf(data) {
  const { rows, preparation } = data;
  const share = Number($('held-out').value) / 100;
  const batch = plan.entries[trainer].rows?.count ?? 1;
  const count = Math.round(share * rows);
  // Rows of tables, pictures and text are repeated where there are fewer than a batch.
  const canSplit = count > 0 && rows - count >= (preparation ? 1 : batch);
  return canSplit ? data.split(share) : [data, null];
}

export async function useRead() {
  const { read, label, readings } = page.panel;
  if (!read) return;
  page.panel.afterReset = null;
  page.panel.share = $('held-out').value;
  const [train, held] = await partsOf(read);
  if (readings !== page.panel.readings) return;
  page.model.preparation = train.preparation;
  show({ 'held-out-choice': true });
  await page.use({ train, heldOut: held?.arrays ?? null, label, isInvented: false });
}

export function useInvented() {
  const { panel } = page;
  panel.afterReset = null;
  const elements = Object.values(plan.entries[trainer].inputs).reduce(
    (sum, id) => sum + elementCount(plan.tensors[id].shape),
    0,
  );
  const batches = Math.max(1, Math.min(8, Math.floor(MOST_GENERATED / elements)));
  const train = generated(trainer, panel.seed++, batches);
  const heldOut = generated(trainer, panel.seed++, 1);
  page.model.preparation = panel.names;
  show({ 'held-out-choice': false });
  return page.use({ train, heldOut, label: 'invented', isInvented: true });
}

export function useBuilt() {
  const { panel } = page;
  panel.read = panel.built;
  panel.label = 'The data of this page';
  const preview = panel.built && previewOfArrays(panel.built);
  if (preview)
    drawRows(
      preview,
      preview.columns.map(({ input }) => input),
      null,
    );
  return useRead();
}

/** The data that the bundle was built with, if it was. */
export function builtData() {
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
export const isTrained = () => plan.weights?.seed === undefined;

/** What most of the data is: pictures, text, or undefined. @param {any} data @returns {string | undefined} */
export const kindOf = ({ preparation }) =>
  Object.values(preparation?.inputs ?? {})
    .map(({ kind }) => kind)
    .find(kind => kind === 'pictures' || kind === 'text');

/** Its rows, as people call them. @param {number} count @param {any} data */
export function rowWords(count, data) {
  const kind = kindOf(data);
  if (kind === 'pictures') return countOf(count, 'picture');
  return kind ? countOf(count, 'piece of text', 'pieces of text') : countOf(count, 'row');
}

export function drawData() {
  if (!page.data) return;
  const { train, heldOut, label, isInvented } = page.data;
  const rows = rowCount(trainer, arraysOf(train));
  const held = heldOut ? `, and ${rowWords(rowCount(trainer, heldOut), train)} held out` : '';
  put(
    'rows',
    isInvented
      ? [
          h('span', 'invented', { className: 'badge' }),
          `${countOf(rows, 'row')} of made-up numbers, only to show that training works`,
        ]
      : `${label}: ${rowWords(rows, train)} to learn from${held}`,
  );
}

/** A question in the page. @param {string} text @param {Answer[]} answers */
export function askAbout(text, answers) {
  const answer = (/** @type {Act} */ act) =>
    guarded(() => {
      hideQuestion();
      return act();
    });
  const buttons = answers.map(([name, act]) => h('button', name, { onclick: answer(act) }));
  page.panel.isAsking = true;
  put('data-question', [h('p', text), h('div', buttons, { className: 'row' })]);
  show({ 'data-question': true });
  page.announce('running');
}
function hideQuestion() {
  page.panel.isAsking = false;
  show({ 'data-question': false });
}

export function clearMessages() {
  page.panel.isRefused = false;
  hideQuestion();
  show({ 'data-problem': false, 'data-options': false, 'data-notes': false });
  clearPreview();
}
