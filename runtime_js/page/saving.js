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
  const saves = await savesNow();
  $('saves').replaceChildren();
  for (const save of saves.sort((a, b) => b.at - a.at)) addSave(save);
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
  const isKept = await saveAs(BY_HAND, name);
  const until = isKept ? '' : ' (until it runs out of space)';
  say(`Saved step ${page.step} in this browser${until}.`);
}

/** The step of the last autosave, or of the values that were restored or reset. */
let savedStep = 0;
async function autosave() {
  if (!page.model || page.step === savedStep) return;
  savedStep = page.step;
  await saveAs(AUTOSAVE, 'last');
}

page.when('loaded', () => {
  $('keep').hidden = !trainer;
  savedStep = page.step;
  if (trainer) return guarded(listSaves)();
});
page.when('values', () => {
  savedStep = page.step;
});
page.when('running', () => {
  if (!page.running) autosave().catch(() => {});
});
$('save').onclick = guarded(saveByHand);
$('download').onclick = guarded(async () => {
  await heldOut.running;
  download(await page.model.save({ blob: true }), `${plan.model.name}-${page.step}.safetensors`);
});
$('open').onchange = guarded(async ({ target }) => {
  const [file] = target.files;
  target.value = '';
  if (!file) return;
  await page.stop();
  const notes = await page.model.restore(file);
  say([`Opened step ${page.step}.`, ...notes].join(' '));
  await page.announce('values');
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden && page.running) autosave().catch(() => {});
  // Another tab may have saved.
  else if (page.model && trainer) listSaves().catch(() => {});
});
window.addEventListener('beforeunload', event => {
  if (page.running) event.preventDefault();
});
