// Starts the page: loads the model, says where it runs, and what is wrong if it does not.

$('about').textContent = source
  .match(/^(\s*\/\/\/.*\n)*/)[0]
  .replace(/\s*\/\/\/\s*/g, ' ')
  .trim();
loadedModel().then(begin).catch(explain);

/** With the files beside the page; an exported page has its own weights. */
async function loadedModel() {
  const weights = filesBeside.find(isWeights);
  const tokensFile = filesBeside.find(file => !isWeights(file));
  const given = weights && trained ? { weights: decoded(trained) } : {};
  const model = await withFile(trained ? undefined : weights, 'weights', () =>
    load({ onProgress: showLoading, ...given }),
  );
  if (tokensFile) await withFile(tokensFile, 'bundle', () => model.tokens());
  return model;
}

function isWeights({ name }) {
  return name.endsWith('.safetensors');
}

/**
 * What `use` returns. A page from a disk may not read a file beside it: the user chooses or drops it,
 * and is asked again after an error of this code: then it is not the file of this model.
 */
async function withFile(file, code, use) {
  if (!file || location.protocol !== 'file:') return use();
  for (let problem = ''; ; ) {
    await askFor(file, problem);
    try {
      return await use();
    } catch (error) {
      if (error.code !== code) throw error;
      problem = error.message;
    }
  }
}

function showLoading(progress) {
  // Kernels also come later, when they are first needed.
  if (!page.model) say(loadingWords(progress));
}

/** `problem` is what was wrong with the last one. */
async function askFor(file, problem) {
  const what = isWeights(file) ? 'weights' : 'tokens';
  const box = $('problem');
  box.hidden = false;
  make('h2', `This model needs its file of ${what}`, box);
  if (problem) make('p', problem, box);
  const size = `${megabytes(file.size)} MB`;
  make('p', `Choose or drop ${file.name} (${size}), which is beside this page.`, box);
  const input = make('input', '', box, {
    type: 'file',
    accept: isWeights(file) ? '.safetensors' : '.json',
    id: `${what}-file`,
  });
  say(`Waiting for the file of ${what}.`);
  const given = await givenFile(input, box);
  say(`Reading ${megabytes(given.size)} MB of ${what}.`);
  file.chosen = given;
  box.hidden = true;
  box.replaceChildren();
}

/** The next file that is chosen, or dropped anywhere on the page. */
function givenFile(input, box) {
  const listening = new AbortController();
  return new Promise(done => {
    const listen = (target, kind, hear) =>
      target.addEventListener(kind, hear, { signal: listening.signal });
    const take = files => files.length && done(files[0]);
    listen(input, 'change', () => take(input.files));
    listen(document, 'dragover', event => {
      event.preventDefault();
      box.classList.add('over');
    });
    listen(document, 'dragleave', () => box.classList.remove('over'));
    listen(document, 'drop', event => {
      event.preventDefault();
      take(event.dataTransfer.files);
    });
  }).finally(() => {
    listening.abort();
    box.classList.remove('over');
  });
}

// What is drawn on a canvas has the colours and the width of its time.
const redraw = guarded(() => page.isReady && page.announce('look'));
matchMedia('(prefers-color-scheme: dark)').onchange = redraw;
window.onresize = redraw;

async function begin(loaded) {
  if (trained) await loaded.restore(decoded(trained));
  page.model = loaded;
  // For the browser's console, and for tests.
  globalThis.wgccPage = page;
  const { kind, name } = loaded.adapter;
  const where = kind === 'wasm' ? 'your CPU (WebAssembly): no GPU was found' : name || 'your GPU';
  const learned = trained ? `, trained for ${countOf(page.step, 'step')}` : '';
  say(`${countOf(parameterCount(), 'parameter')}${learned}, on ${where}`);
  survive(loaded, {
    step: () => page.step,
    stop: stopForLoss,
    recovered: guardedRecovered,
    failed,
  });
  await page.announce('loaded');
  page.isReady = true;
}

/** Ends a training; returns the step that it was to reach, 0 if there was none. */
async function stopForLoss() {
  const isUnderWay = Boolean(page.running);
  await page.stop();
  await heldOut.running;
  return isUnderWay || training.isCut ? training.until : 0;
}
const guardedRecovered = (...given) => guarded(() => recovered(...given))();
/** The step that came back after the last loss. */
let lastRecovered = -1;
/** Goes on to `goal`, unless the training has lost the GPU without getting on: it always would. */
async function recovered(words, goal) {
  $('problem').hidden = true;
  await page.announce('values');
  const goesOn = goal > page.step && page.step > lastRecovered;
  lastRecovered = page.step;
  $('recovered').textContent = `${words}${goesOn ? ' It goes on from there.' : ''}`;
  say($('recovered').textContent);
  if (goesOn) await training.start(goal - page.step, $('recovered').textContent);
}
function failed(error, tryAgain) {
  explain(error);
  $('problem').lastChild.remove();
  make('p', `The GPU was lost, and could not be opened again. ${STILL_THERE}`, $('problem'));
  make('button', 'Try again', $('problem'), { onclick: tryAgain });
}
const STILL_THERE = 'What was learned is still in this page: do not close it.';

const FROM_PYTHON = 'From Python it runs anywhere: install wgcc, then wgcc train on this folder.';

/** What to do where WebGPU is missing; or what went wrong. */
function explain(error) {
  const isMissing = lacksWebGpu(error);
  const box = $('problem');
  say(isMissing ? 'This model runs by WebGPU.' : 'This did not work.');
  box.hidden = false;
  box.replaceChildren();
  make('h2', isMissing ? 'There is no WebGPU here' : problemWords(error), box);
  const advice = isMissing ? [reasonOf(error), FROM_PYTHON] : ['Reload the page to try again.'];
  for (const text of advice) make('p', text, box);
}
