// Checkpoints: in the browser's storage, under names, and as files. The autosave has a place of its
// own. Places belong to a model as it was built: another version of it has others.

const AUTOSAVE = 'autosave';
const BY_HAND = 'saved';
const PLACES = `${plan.model.name}/${plan.model.sha256.slice(0, 16)}`;
const placeOfSave = (kind, name) => `${PLACES}/${kind}/${name}`;
const aboutSave = (kind, name) => `${PLACES}/about/${kind}/${name}`;
/** Every key that starts so. */
const keysFrom = start => IDBKeyRange.bound(start, `${start}\uffff`);

/** Stores the model as it is; returns whether the browser promised to keep it. */
async function saveAs(kind, name) {
  await heldOut.running;
  const about = { kind, name, step: page.step, at: Date.now() };
  const isKept = await page.model.store(placeOfSave(kind, name));
  await inStorage('readwrite', all => all.put(about, aboutSave(kind, name)));
  await listSaves();
  return isKept;
}
const savesNow = () => inStorage('readonly', all => all.getAll(keysFrom(`${PLACES}/about/`)));

async function listSaves() {
  const all = await savesNow();
  $('saves').replaceChildren();
  for (const save of all.sort((a, b) => b.at - a.at)) addSave(save);
}
function addSave({ kind, name, step, at }) {
  const item = make('li', '', $('saves'));
  const title = kind === AUTOSAVE ? 'Autosave' : name;
  make('b', title, item);
  const day = new Date(at).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  make('span', `step ${step.toLocaleString('en')}, ${day}`, item, { className: 'note' });
  const restore = make('button', 'Restore', item, {
    onclick: guarded(() => restoreSave(kind, name)),
  });
  restore.setAttribute('aria-label', `Restore ${title}`);
  const remove = make('button', 'Delete', item, { onclick: guarded(() => removeSave(kind, name)) });
  remove.setAttribute('aria-label', `Delete ${title}`);
}
async function restoreSave(kind, name) {
  await page.stop();
  const notes = await page.model.recall(placeOfSave(kind, name));
  if (!notes) throw Error('This save is gone.');
  saves.keep();
  say([`Restored step ${page.step}.`, ...notes].join(' '));
  await page.announce('values');
}
async function removeSave(kind, name) {
  for (const key of [placeOfSave(kind, name), aboutSave(kind, name)])
    await inStorage('readwrite', all => all.delete(key));
  await listSaves();
}

async function saveByHand() {
  const name = $('save-name').value.trim() || 'my model';
  const isThere = (await savesNow()).some(save => save.kind === BY_HAND && save.name === name);
  const isMeant =
    !isThere || (await ask(`There is a save named “${name}”.`, ['Replace it', 'Keep it']));
  if (!isMeant || isMeant === 'Keep it') return;
  const { step } = page;
  const isKept = await saveAs(BY_HAND, name);
  saves.keep(step);
  showSaveProblem('');
  const until = isKept ? '' : ' (until it runs out of space)';
  say(`Saved step ${step} in this browser${until}.`);
}

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

  keep(step = page.step) {
    saves.keptStep = step;
  },
  get isDue() {
    const pause = Math.max(saves.every, saves.took / AUTOSAVE_SHARE);
    return performance.now() - saves.savedAt > pause;
  },
  get hasUnsaved() {
    return Boolean(page.model && trainer && (page.running || page.step !== saves.keptStep));
  },
};

/** Errors are shown, and end nothing. */
async function autosave() {
  if (!page.model || saves.isSaving || page.step === saves.keptStep) return;
  saves.isSaving = true;
  try {
    // Steps that were made meanwhile, of a training that has ended, are saved, too.
    do await autosaveOnce();
    while (!page.running && page.step !== saves.keptStep);
    showSaveProblem('');
  } catch (error) {
    // After a lost device, the page goes on with what came back.
    if (error.code !== 'device-lost') showSaveProblem(error, 'The training is not saved. ');
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
  if (page.step >= step) saves.keep(step);
}

function showSaveProblem(error, what = '') {
  $('save-problem').textContent = error && `${what}${problemWords(error)} ${DOWNLOAD}`;
}
const DOWNLOAD = 'Download the page or the weights to keep what the model learns.';
const listSavesSafely = () => listSaves().catch(error => showSaveProblem(error));

page.saves = saves;
page.when('loaded', () => {
  $('keep').hidden = !trainer;
  saves.keep();
  if (trainer) return listSavesSafely();
});
page.when('reset', () => saves.keep());
page.when('running', () => {
  saves.savedAt = performance.now();
  if (!page.running) autosave();
});
// The training waits for it, so that the values are those of the step that the save is called by.
page.when('learned', () => saves.isDue && autosave());
$('save').onclick = guarded(saveByHand);
$('download').onclick = guarded(async () => {
  await heldOut.running;
  const { step } = page;
  download(await page.model.save({ blob: true }), `${plan.model.name}-${step}.safetensors`);
  saves.keep(step);
});
$('open').onchange = guarded(async ({ target }) => {
  const [file] = target.files;
  target.value = '';
  if (!file) return;
  await page.stop();
  const notes = await page.model.restore(file);
  saves.keep();
  say([`Opened step ${page.step}.`, ...notes].join(' '));
  await page.announce('values');
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden && page.running) autosave();
  // Another tab may have saved.
  else if (page.model && trainer) listSavesSafely();
});
askBeforeLeaving(() => saves.hasUnsaved);
