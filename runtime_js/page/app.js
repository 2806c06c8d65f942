// Starts the page: loads the model, says where it runs, and what is wrong if it does not.

$('about').textContent = source
  .match(/^(\s*\/\/\/.*\n)*/)[0]
  .replace(/\s*\/\/\/\s*/g, ' ')
  .trim();
load({ onProgress: showLoading }).then(begin, explain);

function showLoading({ stage, done, total }) {
  // Kernels also come later, when they are first needed.
  if (!page.model) say(`Loading ${stage}: ${done} of ${total}`);
}

async function begin(loaded) {
  page.model = loaded;
  // For the browser's console, and for tests.
  globalThis.wgccPage = page;
  const params = Object.values(plan.tensors)
    .filter(({ role }) => role === 'param')
    .reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const { kind, name } = loaded.adapter;
  const where = kind === 'wasm' ? 'your CPU (WebAssembly): no GPU was found' : name || 'your GPU';
  say(`${params.toLocaleString()} parameters, on ${where}`);
  watch();
  await page.announce('loaded');
}

/** After a lost device the training continues from the last snapshot; nothing else is lost. */
function watch() {
  page.model.lost.then(async () => {
    await page.stop();
    await page.model.recover().then(watch, explain);
    await page.announce('values');
  });
}

/** What to do where WebGPU is missing; or what went wrong. */
function explain(error) {
  const isMissing = lacksWebGpu(error);
  const box = $('problem');
  say(isMissing ? 'This model runs by WebGPU.' : 'This did not work.');
  box.hidden = false;
  box.replaceChildren();
  make('h2', isMissing ? 'There is no WebGPU here' : error.message, box);
  const advice = isMissing ? waysToWebGpu() : ['Reload the page to try again.'];
  for (const text of advice) make('p', text, box);
}

function waysToWebGpu() {
  return [
    isSecureContext
      ? 'Open this file in a current Chrome or Edge, in Safari 26 or newer, or in Firefox 141 or newer.'
      : 'Browsers give it to pages from https, localhost or a disk, not from http: save this file and open it.',
    'On Linux, switch on chrome://flags/#enable-unsafe-webgpu in Chrome.',
    'From Python it runs anywhere: install wgcc, then wgcc train on this folder.',
  ];
}
