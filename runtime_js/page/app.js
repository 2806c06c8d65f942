// Starts the page: loads the model, says where it runs, and what is wrong if it does not.

$('about').textContent = source
  .match(/^(\s*\/\/\/.*\n)*/)[0]
  .replace(/\s*\/\/\/\s*/g, ' ')
  .trim();
haveWeights()
  .then(weights => load({ onProgress: showLoading, ...weights }))
  .then(begin)
  .catch(explain);

function showLoading(progress) {
  // Kernels also come later, when they are first needed.
  if (!page.model) say(loadingWords(progress));
}

/**
 * A page from a disk may not read the file of weights beside it: the user chooses or drops it. Returns
 * options of `load`: an exported page needs no such file.
 */
async function haveWeights() {
  if (fileBeside && trained) return { weights: decoded(trained) };
  if (!fileBeside || location.protocol !== 'file:') return {};
  const box = $('problem');
  box.hidden = false;
  make('h2', 'This model needs its file of weights', box);
  const size = `${megabytes(fileBeside.size)} MB`;
  make('p', `Choose or drop ${fileBeside.name} (${size}), which is beside this page.`, box);
  const input = make('input', '', box, {
    type: 'file',
    accept: '.safetensors',
    id: 'weights-file',
  });
  say('Waiting for the file of weights.');
  await new Promise(done => {
    input.onchange = () => input.files.length && done();
  });
  say(`Reading ${size} of weights.`);
  fileBeside.bytes = new Uint8Array(await input.files[0].arrayBuffer());
  box.hidden = true;
  box.replaceChildren();
  return {};
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
  watch();
  await page.announce('loaded');
  page.isReady = true;
}

/** After a lost device the training continues from the last snapshot; nothing else is lost. */
function watch() {
  page.model.lost.then(async () => {
    await page.stop();
    await page.model.recover().then(watch, explain);
    await page.announce('values');
  });
}

const FROM_PYTHON = 'From Python it runs anywhere: install wgcc, then wgcc train on this folder.';

/** What to do where WebGPU is missing; or what went wrong. */
function explain(error) {
  const isMissing = lacksWebGpu(error);
  const box = $('problem');
  say(isMissing ? 'This model runs by WebGPU.' : 'This did not work.');
  box.hidden = false;
  box.replaceChildren();
  make('h2', isMissing ? 'There is no WebGPU here' : error.message, box);
  const advice = isMissing ? [reasonOf(error), FROM_PYTHON] : ['Reload the page to try again.'];
  for (const text of advice) make('p', text, box);
}
