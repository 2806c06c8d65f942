// The page of a bundle: loads the model, says where it runs, and what is wrong if it does not.

import { decoded, filesBeside, load, source, trained } from './bundle.js';
import { dataCard } from './data_panel.js';
import { $, guarded, h, put, say, show } from './elements.js';
import { insightCard } from './insight.js';
import { drawKernels } from './kernels_drawer.js';
import { survive } from './lost_device.js';
import { countOf, parameterCount } from './ports.js';
import { lacksWebGpu, loadingWords, megabytes, problemWords, reasonOf } from './problems.js';
import { savingCard } from './saving.js';
import { serviceCard } from './service.js';
import { sharing } from './sharing.js';
import { page } from './state.js';
import { startTraining, trainingCard } from './training.js';
import { tryCard } from './try_it.js';

/** @import { FileBeside } from './bundle.js' */
/** @import { Child } from './elements.js' */

const FROM_PYTHON = 'From Python it runs anywhere: install wgcc, then wgcc train on this folder.';
const LOST = 'The GPU was lost, and could not be opened again.';
const STILL_THERE = 'What was learned is still in this page: do not close it.';

/** The step that came back after the last loss. */
let lastRecovered = -1;

/** The comment at the beginning of the source. */
function aboutWords() {
  const lines = source.split('\n').map(line => line.trim());
  const end = lines.findIndex(line => line && !line.startsWith('///'));
  const comments = lines.slice(0, end < 0 ? lines.length : end);
  return comments
    .map(line => line.slice(3).trim())
    .join(' ')
    .trim();
}

/** With the files beside the page; an exported page has its own weights. */
async function loadModel() {
  const weights = filesBeside.find(isWeights);
  const tokensFile = filesBeside.find(file => !isWeights(file));
  const own = weights && trained ? { weights: decoded(trained) } : {};
  const onProgress = (/** @type {any} */ progress) => {
    // Kernels also come later, when they are first needed.
    if (!page.model) say(loadingWords(progress));
  };
  const model = await withFile(trained ? undefined : weights, 'weights', () =>
    load({ onProgress, ...own }),
  );
  if (tokensFile) await withFile(tokensFile, 'bundle', () => model.tokens());
  return model;
}

/** @param {FileBeside} file */
const isWeights = ({ name }) => name.endsWith('.safetensors');

/**
 * What `use` returns. A page from a disk may not read a file beside it: the user chooses or drops it,
 * and is asked again after an error of this code: then it is not the file of this model.
 * @param {FileBeside | undefined} file @param {string} code @param {() => any} use
 */
async function withFile(file, code, use) {
  if (!file || location.protocol !== 'file:') return use();
  for (let problem = ''; ; ) {
    await askFor(file, problem);
    try {
      return await use();
    } catch (error) {
      if (/** @type {any} */ (error).code !== code) throw error;
      problem = /** @type {any} */ (error).message;
    }
  }
}

/** @param {FileBeside} file @param {string} problem what was wrong with the last one */
async function askFor(file, problem) {
  const [what, accept] = isWeights(file) ? ['weights', '.safetensors'] : ['tokens', '.json'];
  const input = h('input', [], { type: 'file', accept, id: `${what}-file` });
  drawProblem(`This model needs its file of ${what}`, [
    problem && h('p', problem),
    h('p', `Choose or drop ${file.name} (${megabytes(file.size)} MB), which is beside this page.`),
    input,
  ]);
  say(`Waiting for the file of ${what}.`);
  const chosen = await chosenFile(input, $('problem'));
  say(`Reading ${megabytes(chosen.size)} MB of ${what}.`);
  file.chosen = chosen;
  show({ problem: false });
}

/** @param {string} title @param {Child[]} children */
function drawProblem(title, children) {
  put('problem', [h('h2', title), ...children]);
  show({ problem: true });
}

/** The next file that is chosen, or dropped anywhere on the page. @param {HTMLInputElement} input @param {Element} box @returns {Promise<File>} */
function chosenFile(input, box) {
  const listening = new AbortController();
  const { signal } = listening;
  return new Promise(done => {
    const take = (/** @type {FileList | null | undefined} */ files) =>
      files?.length && done(files[0]);
    input.addEventListener('change', () => take(input.files), { signal });
    document.addEventListener('dragleave', () => box.classList.remove('over'), { signal });
    for (const kind of /** @type {const} */ (['dragover', 'drop']))
      document.addEventListener(
        kind,
        event => {
          event.preventDefault();
          box.classList.add('over');
          if (kind === 'drop') take(event.dataTransfer?.files);
        },
        { signal },
      );
  }).finally(() => {
    listening.abort();
    box.classList.remove('over');
  });
}

/** @param {any} model */
async function begin(model) {
  if (trained) await model.restore(decoded(trained));
  page.model = model;
  // For the browser's console, and for tests.
  Object.assign(globalThis, { wgccPage: page });
  const { kind, name, threads } = model.adapter;
  const cpu = threads > 1 ? `WebAssembly, ${threads} threads` : 'WebAssembly';
  const where = kind === 'wasm' ? `your CPU (${cpu}): no GPU was found` : name || 'your GPU';
  const learned = trained ? `, trained for ${countOf(page.step, 'step')}` : '';
  say(`${countOf(parameterCount(), 'parameter')}${learned}, on ${where}`);
  const recovered = (/** @type {string} */ words, /** @type {number} */ goal) =>
    guarded(() => goOn(words, goal))(null);
  survive(model, { step: () => page.step, stop: stopForLoss, recovered, failed });
  await page.announce('loaded');
  page.isReady = true;
}

/** Ends a training; returns the step that it was to reach, 0 if there was none. */
async function stopForLoss() {
  const isUnderWay = Boolean(page.running);
  await page.stop();
  await page.measured;
  return isUnderWay || page.training.isCut ? page.training.until : 0;
}
/** Goes on to `goal`, unless the training has lost the GPU without getting on: it always would. @param {string} words @param {number} goal */
async function goOn(words, goal) {
  show({ problem: false });
  await page.announce('values');
  const goesOn = goal > page.step && page.step > lastRecovered;
  lastRecovered = page.step;
  const text = `${words}${goesOn ? ' It goes on from there.' : ''}`;
  put('recovered', text);
  say(text);
  if (goesOn) await startTraining(goal - page.step, text);
}
/** @param {unknown} error @param {() => any} tryAgain */
function failed(error, tryAgain) {
  say('This did not work.');
  drawProblem(problemWords(error), [
    h('p', `${LOST} ${STILL_THERE}`),
    h('button', 'Try again', { onclick: tryAgain }),
  ]);
}

/** What to do where WebGPU is missing; or what went wrong. @param {unknown} error */
function explain(error) {
  if (lacksWebGpu(error)) {
    say('This model runs by WebGPU.');
    drawProblem('There is no WebGPU here', [h('p', reasonOf(error)), h('p', FROM_PYTHON)]);
  } else {
    say('This did not work.');
    drawProblem(problemWords(error), [h('p', 'Reload the page to try again.')]);
  }
}

for (const card of [trainingCard, savingCard, sharing, serviceCard, dataCard, tryCard, insightCard])
  card();
drawKernels();
put('about', aboutWords());
// What is drawn on a canvas has the colours and the width of its time.
const redraw = guarded(() => page.isReady && page.announce('look'));
matchMedia('(prefers-color-scheme: dark)').onchange = redraw;
window.onresize = redraw;
loadModel().then(begin).catch(explain);
