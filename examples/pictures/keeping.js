// The visitor's examples, and what the model learned from them, in the browser's storage.

import { inStorage } from '../../runtime_js/files/storage.js';
import { plan } from '../../runtime_js/page/bundle.js';
import { problemWords } from '../../runtime_js/page/problems.js';

const PLACE = `${plan.model.name}/${plan.model.sha256.slice(0, 16)}/examples`;
const MODEL_PLACE = `${PLACE}/model`;

export const keeping = {
  isBusy: false,
  isStale: false,
  hasFailed: false,
  /** The step of the model that is stored. */
  keptStep: 0,
  get isUnsaved() {
    return keeping.isBusy || keeping.hasFailed;
  },
};
export const stepOf = model => model.progress.steps.train ?? 0;

/** Stores the examples, and the model if it has learned more; what changes meanwhile comes next. */
export async function keep(model, kinds) {
  keeping.isStale = true;
  if (keeping.isBusy) return;
  keeping.isBusy = true;
  try {
    while (keeping.isStale) {
      keeping.isStale = false;
      const kept = kinds.map(({ name, examples }) => ({ name, examples }));
      await inStorage('readwrite', all => all.put(kept, PLACE));
      await keepModel(model);
    }
    showProblem('');
  } catch (error) {
    // After a lost device, the values that came back are stored with the next change.
    if (error.code !== 'device-lost') showProblem(`Your work is not saved. ${problemWords(error)}`);
  } finally {
    keeping.isBusy = false;
  }
}
async function keepModel(model) {
  const step = stepOf(model);
  if (step === keeping.keptStep) return;
  await model.store(MODEL_PLACE);
  keeping.keptStep = step;
}
function showProblem(text) {
  keeping.hasFailed = Boolean(text);
  document.getElementById('save-problem').textContent = text;
}

/** The examples of the last visit, and whether the model came back, too; null if there are none. */
export async function lastVisit(model) {
  try {
    const kinds = await inStorage('readonly', all => all.get(PLACE));
    if (!kinds?.some(({ examples }) => examples.length)) return null;
    const hasLearned = Boolean(await model.recall(MODEL_PLACE));
    keeping.keptStep = stepOf(model);
    return { kinds, hasLearned };
  } catch (error) {
    document.getElementById('save-problem').textContent = problemWords(error);
    return null;
  }
}

export async function forgetVisit() {
  keeping.keptStep = 0;
  for (const key of [PLACE, MODEL_PLACE]) await inStorage('readwrite', all => all.delete(key));
}
