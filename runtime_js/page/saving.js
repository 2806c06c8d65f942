// Checkpoints: in the browser's storage, under names, and as files. The autosave has a place of its
// own. Places belong to a model as it was built: another version of it has others.

import { inStorage } from '../files/storage.js';
import { plan } from './bundle.js';
import { $, ask, download, guarded, h, put, say, show } from './elements.js';
import { askBeforeLeaving, problemWords } from './problems.js';
import { page, trainer } from './state.js';

/** @typedef {{kind: string, name: string, step: number, at: number}} Save */

const AUTOSAVE = 'autosave';
const BY_HAND = 'saved';
const PLACES = `${plan.model.name}/${plan.model.sha256.slice(0, 16)}`;
const DOWNLOAD = 'Download the page or the weights to keep what the model learns.';
/** Milliseconds between autosaves while the model trains; of the time, the share they may take. */
const AUTOSAVE_EVERY = 30_000;
const AUTOSAVE_SHARE = 0.05;

const saves = {
  /** The step whose values are kept somewhere: saved, restored, downloaded, or as built. */
  keptStep: 0,
  isSaving: false,
  /** When the last autosave ended, or the training began; how long it took. */
  savedAt: 0,
  took: 0,
  /** Changed by tests. */
  every: AUTOSAVE_EVERY,

  get isDue() {
    const pause = Math.max(saves.every, saves.took / AUTOSAVE_SHARE);
    return performance.now() - saves.savedAt > pause;
  },
  get hasUnsaved() {
    return Boolean(page.model && trainer && (page.running || page.step !== saves.keptStep));
  },
};

/** The values of a step are kept somewhere. */
export function keepStep(step = page.step) {
  saves.keptStep = step;
}

/** @param {string} kind @param {string} name */
const placeOf = (kind, name) => `${PLACES}/${kind}/${name}`;
/** @param {string} kind @param {string} name */
const aboutOf = (kind, name) => `${PLACES}/about/${kind}/${name}`;

/** Stores the model as it is. @param {string} kind @param {string} name */
async function saveAs(kind, name) {
  await page.measured;
  const about = { kind, name, step: page.step, at: Date.now() };
  const isPersistent = await page.model.store(placeOf(kind, name));
  await inStorage('readwrite', all => all.put(about, aboutOf(kind, name)));
  await drawSaves();
  return isPersistent;
}

/** @returns {Promise<Save[]>} */
function savesNow() {
  const start = `${PLACES}/about/`;
  const keys = IDBKeyRange.bound(start, `${start}\uffff`);
  return inStorage('readonly', all => all.getAll(keys));
}

async function drawSaves() {
  const all = await savesNow();
  put('saves', all.sort((a, b) => b.at - a.at).map(saveItem));
}
/** @param {Save} save */
function saveItem({ kind, name, step, at }) {
  const title = kind === AUTOSAVE ? 'Autosave' : name;
  const day = new Date(at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  const button = (/** @type {string} */ text, /** @type {() => any} */ act) =>
    h('button', text, { onclick: guarded(act), 'aria-label': `${text} ${title}` });
  return h('li', [
    h('b', title),
    h('span', `step ${step.toLocaleString('en')}, ${day}`, { className: 'note' }),
    button('Restore', () => restoreSave(kind, name)),
    button('Delete', () => removeSave(kind, name)),
  ]);
}

/** @param {string} kind @param {string} name */
async function restoreSave(kind, name) {
  await page.stop();
  const notes = await page.model.recall(placeOf(kind, name));
  if (!notes) throw Error('This save is gone.');
  await showRestored('Restored', notes);
}
/** @param {string} word @param {string[]} notes */
function showRestored(word, notes) {
  keepStep();
  say([`${word} step ${page.step}.`, ...notes].join(' '));
  return page.announce('values');
}
/** @param {string} kind @param {string} name */
async function removeSave(kind, name) {
  for (const key of [placeOf(kind, name), aboutOf(kind, name)])
    await inStorage('readwrite', all => all.delete(key));
  await drawSaves();
}

async function saveByHand() {
  const name = $('save-name').value.trim() || 'my model';
  const isThere = (await savesNow()).some(save => save.kind === BY_HAND && save.name === name);
  const question = `There is a save named “${name}”.`;
  if (isThere && (await ask(question, ['Replace it', 'Keep it'])) !== 'Replace it') return;
  const { step } = page;
  const isPersistent = await saveAs(BY_HAND, name);
  keepStep(step);
  put('save-problem', '');
  say(`Saved step ${step} in this browser${isPersistent ? '' : ' (until it runs out of space)'}.`);
}

/** Errors are shown, and end nothing. */
async function autosave() {
  if (!page.model || saves.isSaving || page.step === saves.keptStep) return;
  saves.isSaving = true;
  try {
    // Steps that were made meanwhile, of a training that has ended, are saved, too.
    do await autosaveOnce();
    while (!page.running && page.step !== saves.keptStep);
    put('save-problem', '');
  } catch (error) {
    // After a lost device, the page goes on with what came back.
    const { code } = /** @type {any} */ (error);
    if (code !== 'device-lost') drawSaveProblem(error, 'The training is not saved. ');
  } finally {
    saves.isSaving = false;
    saves.savedAt = performance.now();
  }
}
async function autosaveOnce() {
  const { step } = page;
  const started = performance.now();
  await saveAs(AUTOSAVE, 'last');
  saves.took = performance.now() - started;
  // Unless the model was reset meanwhile.
  if (page.step >= step) keepStep(step);
}

/** @param {unknown} error @param {string} [what] */
const drawSaveProblem = (error, what = '') =>
  put('save-problem', `${what}${problemWords(error)} ${DOWNLOAD}`);
const drawSavesSafely = () => drawSaves().catch(error => drawSaveProblem(error));

/** The file of a checkpoint. */
async function downloadWeights() {
  await page.measured;
  const { step } = page;
  download(await page.model.save({ blob: true }), `${plan.model.name}-${step}.safetensors`);
  keepStep(step);
}

/** @param {{target: HTMLInputElement}} event */
async function openWeights({ target }) {
  const [file] = target.files ?? [];
  target.value = '';
  if (!file) return;
  await page.stop();
  await showRestored('Opened', await page.model.restore(file));
}

export function savingCard() {
  page.saves = saves;
  page.when('loaded', () => {
    show({ keep: trainer });
    keepStep();
    if (trainer) return drawSavesSafely();
  });
  page.when('reset', () => keepStep());
  page.when('running', () => {
    saves.savedAt = performance.now();
    if (!page.running) autosave();
  });
  // The training waits for it, so that the values are those of the step that the save is called by.
  page.when('learned', () => saves.isDue && autosave());
  $('save').onclick = guarded(saveByHand);
  $('download').onclick = guarded(downloadWeights);
  $('open').onchange = guarded(openWeights);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden && page.running) autosave();
    // Another tab may have saved.
    else if (page.model && trainer) drawSavesSafely();
  });
  askBeforeLeaving(() => saves.hasUnsaved);
}
