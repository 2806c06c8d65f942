// The workbench in Chromium: node workbench.mjs SITE. A mistake, its fix, training by WebGPU and by the
// twin, captures, a kernel and its line, an address in a fresh profile, no network. The compiler is
// started once, and once more from what the page kept.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answer, launch, openPage, serve } from './browser.mjs';

const LONG = { timeout: 240_000 };
const server = await serve({ '/': process.argv[2] });
const seen = { hosts: [], axe: [] };
const AXE = await readFile(
  join(process.env.NODE_FOLDER, 'node_modules', 'axe-core', 'axe.min.js'),
  'utf8',
);

/** What axe says against the page and its frame as they are, in both colour schemes. */
async function judge(page, what) {
  for (const frame of page.frames()) await frame.evaluate(AXE);
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate(() => globalThis.axe.run(document));
    for (const { id, nodes } of violations)
      seen.axe.push(`${what}, ${colorScheme}: ${id} ${nodes.map(({ target }) => target)}`);
  }
}

async function open(browser, address) {
  const opened = await openPage(browser, { viewport: { width: 1400, height: 900 } });
  opened.page.on('request', request => seen.hosts.push(new URL(request.url()).host));
  await opened.page.goto(address);
  return opened;
}
const kept = () => localStorage['wgcc-workbench'];
const state = page => page.evaluate(() => document.body.dataset.state);
const checked = (page, problems) =>
  page.waitForFunction(count => globalThis.wgccChecked?.problems === count, problems, LONG);
const lossesOf = page =>
  page.evaluate(() => {
    const { training } = document.getElementById('frame').contentWindow.wgccPage.curves;
    return training.loss.map(([, loss]) => loss);
  });

/** Trains until the loss was reported often enough. */
async function train(page, button = '#train') {
  await page.click(button);
  await page.waitForFunction(() => document.body.dataset.state === 'compiling', null, LONG);
  await page.waitForFunction(
    () => ['training', 'error'].includes(document.body.dataset.state),
    null,
    LONG,
  );
  const frame = page.frameLocator('#frame');
  await page.waitForFunction(
    () =>
      document.getElementById('frame').contentWindow.wgccPage.curves.training.loss?.length > 12 ||
      document.body.dataset.state === 'error',
    null,
    LONG,
  );
  const status = await frame.locator('#status').textContent();
  const kind = await page.evaluate(
    () => document.getElementById('frame').contentWindow.wgccPage.model.adapter.kind,
  );
  const hidden = await page.evaluate(
    () => document.getElementById('frame').contentWindow.wgccPage.model.plan?.tensors['l1.b'].shape,
  );
  const twin = await page.evaluate(() => globalThis.wgccBundle.twin?.length ?? 0);
  return { state: await state(page), losses: await lossesOf(page), status, kind, hidden, twin };
}

async function mistakeAndFix(page) {
  const text = await page.evaluate(() => JSON.parse(localStorage['wgcc-workbench']).files);
  const wrong = text['model.wg'].replace('|> tanh', '|> tahn');
  await page.click('.cm-content');
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(wrong);
  await checked(page, 1);
  seen.problem = await page.textContent('.problem pre');
  // Carets stand under their place only if all characters have one width.
  seen.caretFont = await page.$eval('.problem pre', pre => getComputedStyle(pre).fontFamily);
  await judge(page, 'a problem');
  seen.canTrain = await page.isEnabled('#train');
  await page.click('.problem button');
  await checked(page, 0);
  seen.fixed = await page.textContent('.cm-content');
}

/** While somebody types, also what the call takes. */
async function typeCall(page) {
  await page.click('.cm-line:has-text("mse(")');
  await page.keyboard.press('End');
  await page.keyboard.type('\nz = softmax(');
  seen.signature = await page.textContent('.cm-tooltip.doc', LONG);
  for (let letters = '\nz = softmax('.length + 8; letters > 0; letters--)
    if ((await page.textContent('.cm-content')).includes('z ='))
      await page.keyboard.press('Control+z');
  await checked(page, 0);
}

/** Values inside, drawn while the model trains. */
async function lookInside(page) {
  await page.click('#tabs button:text-is("Inside")');
  await page.fill('#globs', 'l1, d.l1.*');
  seen.webgpu = await train(page, '#capture');
  await page.waitForFunction(() => document.querySelectorAll('.value').length > 2, null, LONG);
  seen.names = await page.locator('#names button').allTextContents();
  seen.inside = await page.evaluate(() =>
    [...document.querySelectorAll('.value')].map(card => ({
      name: card.dataset.name,
      facts: card.querySelector('.facts').textContent,
      columns: card.querySelector('.histograms').width,
      maps: card.querySelectorAll('.maps canvas').length,
    })),
  );
}

const stepsOf = page =>
  page.evaluate(() => document.getElementById('frame').contentWindow.wgccPage.step);

/** In the page: kernels and lines that were lit, however short. */
function watchLights() {
  globalThis.lit = [];
  new MutationObserver(() => {
    const row = document.querySelector('tr.running');
    const line = document.querySelector('.cm-lit');
    if (row && line) globalThis.lit.push(`${row.textContent} ${line.textContent}`);
  }).observe(document.body, { subtree: true, attributes: true, childList: true });
}

async function pauseStepUndo(page) {
  await page.click('#pause');
  await page.waitForFunction(() => document.body.dataset.state === 'ready', null, LONG);
  const paused = await stepsOf(page);
  await page.click('#tabs button:text-is("Dispatches")');
  await page.evaluate(watchLights);
  await page.click('#step');
  await page.waitForFunction(
    () => document.getElementById('status').textContent.startsWith('Made step'),
    null,
    LONG,
  );
  const lit = await page.evaluate(() => globalThis.lit);
  const stepped = await stepsOf(page);
  await page.click('#undo');
  await page.waitForFunction(
    before => document.getElementById('frame').contentWindow.wgccPage.step === before,
    paused,
    LONG,
  );
  seen.stepping = { paused, stepped, lit };
}

/** Files that were chosen, and the steps, are those of the model that is compiled after an edit. */
async function bringData(page) {
  const frame = page.frameLocator('#frame');
  const rows = Array.from({ length: 600 }, (_, i) => `${i / 100},${i / 50}`);
  await frame.locator('#file').setInputFiles({
    name: 'line.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(['x,y', ...rows].join('\n')),
  });
  await frame.locator('#data-question button:text-is("Start anew with this data")').click(LONG);
  await frame.locator('#rows:has-text("to learn from")').waitFor(LONG);
  await frame.locator('#target').fill('150');
  await page.click('.cm-line:has-text("seed = 7")');
  await page.keyboard.press('End');
  await page.keyboard.insertText(' // the same');
  await train(page);
  const run = await page.evaluate(() =>
    document.getElementById('frame').contentWindow.wgccPage.settings(),
  );
  seen.data = {
    rows: await frame.locator('#rows').textContent(),
    steps: await frame.locator('#target').inputValue(),
    shared: run,
  };
}

/** Lines of fused kernels lead to their own lines of the model; figures are there on demand. */
async function kernelLines(page) {
  seen.kernelLines = [];
  const names = await page.$$eval('#kernel option', all => all.map(({ value }) => value));
  // The last one is that of an entry: guards are in none.
  for (const name of [...names.slice(1), names[0]]) {
    await page.selectOption('#kernel', name);
    await page.waitForFunction(
      shown => document.getElementById('kernel-text').dataset.kernel === shown,
      name,
      LONG,
    );
    const lines = await page.$$eval('#kernel-text .line', all => all.map(one => one.dataset.line));
    seen.kernelLines.push([...new Set(lines)]);
  }
  await page.click('#figures summary');
  await page.waitForSelector('#figures table', LONG);
  seen.figures = await page.$$eval('#figures td:first-child', cells =>
    cells.map(cell => cell.textContent),
  );
}

async function kernelAndBack(page) {
  await page.click('#tabs button:text-is("Dispatches")');
  await page.click('#shown tr.linked:has-text("adam_update")');
  seen.kernel = await page.inputValue('#kernel');
  seen.line = await page.textContent('.cm-linked');
  await page.click('.cm-line:has-text("seed = 7")');
  await page.waitForFunction(() => !document.querySelector('#kernel-text .lit'));
  await page.click('.cm-line:has-text("minimize")');
  await page.waitForFunction(() => document.querySelector('#kernel-text .lit'));
  seen.back = await page.textContent('.cm-linked');
}

/** The same kernel as naga writes it for Metal, Direct3D and Vulkan. */
async function otherLanguages(page) {
  seen.languages = {};
  for (const [language, word] of Object.entries({
    msl: 'kernel void main',
    hlsl: 'numthreads',
    spirv: 'OpEntryPoint',
  })) {
    await page.selectOption('#language', language);
    await page.waitForFunction(
      text => document.getElementById('kernel-text').textContent.includes(text),
      word,
      LONG,
    );
    seen.languages[language] = await page.textContent('#kernel-text');
  }
  await page.selectOption('#language', '');
}

async function tabs(page) {
  seen.tabs = {};
  for (const name of ['Stages', 'Memory', 'Graph', 'Files']) {
    await page.click(`#tabs button:text-is("${name}")`);
    await page.waitForFunction(
      kind => document.querySelector(kind),
      {
        Stages: '#shown .added',
        Memory: '#shown svg rect',
        Graph: '#shown .pane .box.result',
        Files: '#shown td',
      }[name],
    );
    seen.tabs[name] = (await page.textContent('#shown')).length;
  }
  await page.click('#tabs button:text-is("Run")');
}

/** A program that imports another one, which has a kernel of its own; a name is changed in both. */
async function severalFiles(page, files) {
  const buffers = Object.entries(files).map(([name, text]) => ({
    name,
    mimeType: 'text/plain',
    buffer: Buffer.from(text),
  }));
  await page.setInputFiles('#open', buffers);
  await page.waitForFunction(() => localStorage['wgcc-workbench'].includes('wiggle.wgsl'));
  await page.click('#files button:text-is("layers.wg")');
  // Within the name.
  await page.click('.cm-line:has-text("layer Double")', { position: { x: 75, y: 8 } });
  page.once('dialog', dialog => dialog.accept('Twice'));
  await page.click('#rename');
  await page.waitForFunction(() => !localStorage['wgcc-workbench'].includes('Double'), null, LONG);
  await page.click('#files button:text-is("model.wg")');
  await checked(page, 0);
  seen.imported = await train(page);
}

/** A bundle's zip is opened again: its program is the one that was compiled. */
async function takeAwayAndOpen(page) {
  const [download] = await Promise.all([
    page.waitForEvent('download', LONG),
    page.selectOption('#take', 'zip'),
  ]);
  await page.selectOption('#examples', 'digits');
  await page.waitForFunction(() => !localStorage['wgcc-workbench'].includes('wiggle'));
  await page.setInputFiles('#open', {
    name: 'SinMLP.zip',
    mimeType: 'application/zip',
    buffer: await readFile(await download.path()),
  });
  await page.waitForFunction(() => localStorage['wgcc-workbench'].includes('wiggle'), null, LONG);
  return page.evaluate(() => JSON.parse(localStorage['wgcc-workbench']).files);
}

/** Nothing of an address or a page's text may run. */
async function inlineScript(page) {
  return page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'globalThis.wasRun = true';
    document.body.append(script);
    return Boolean(globalThis.wasRun);
  });
}

async function withoutNetwork(page) {
  await page.waitForFunction(() => navigator.serviceWorker.controller, null, LONG);
  await page.waitForFunction(() => globalThis.wgccKept, null, LONG);
  await page.context().setOffline(true);
  await page.reload();
  await checked(page, 0);
  return { state: await state(page), ...(await page.evaluate(() => globalThis.wgccStarted)) };
}

/** A model that takes the compiler's whole stack: the next compiler goes on. */
async function tooDeep(page) {
  await page.selectOption('#examples', 'sin');
  await page.waitForFunction(() => !localStorage['wgcc-workbench'].includes('wiggle'));
  const { files, main } = JSON.parse(await page.evaluate(kept));
  const deep = files[main].replace('x |> l1', `x |> l1${' |> tanh |> l2'.repeat(4000)}`);
  const open = text =>
    page.setInputFiles('#open', { name: main, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await open(deep);
  await page.waitForFunction(
    () => document.getElementById('problems').textContent.includes('nests deeper'),
    null,
    LONG,
  );
  await open('modle M {}');
  await checked(page, 1);
  seen.alive = await page.textContent('.problem');
}

const browser = await launch();
const { page, problems } = await open(browser, `${server.url}/`);
seen.first = await state(page);
await checked(page, 0);
seen.heap = await page.evaluate(() => globalThis.wgccChecked.heap);
await mistakeAndFix(page);
await typeCall(page);
// A software adapter is used only if it is asked for.
await page.selectOption('#device', 'webgpu');
await lookInside(page);
await judge(page, 'values inside');
await pauseStepUndo(page);
// The next model takes the place of the last.
await page.selectOption('#device', 'wasm');
await page.click('#sizes summary');
await page.fill('#size-fields label:has-text("H") input', '48');
await page.keyboard.press('Tab');
seen.twin = await train(page);
await page.click('#tabs button:text-is("Run")');
await judge(page, 'a model that runs');
await bringData(page);
await kernelAndBack(page);
await kernelLines(page);
await otherLanguages(page);
await tabs(page);
await page.click('#share');
await page.waitForFunction(() => location.hash.length > 100);
seen.kept = await page.evaluate(kept);
const fresh = await open(browser, page.url());
await fresh.page.waitForFunction(kept);
seen.shared = await fresh.page.evaluate(kept);
await fresh.page.close();
await severalFiles(page, JSON.parse(process.argv[3]));
seen.taken = JSON.parse(await page.evaluate(kept)).files;
seen.opened = await takeAwayAndOpen(page);
seen.problems = [...problems, ...fresh.problems];
seen.inline = await inlineScript(page);
seen.offline = await withoutNetwork(page);
await tooDeep(page);
await browser.close();
const own = ['', new URL(server.url).host];
seen.hosts = [...new Set(seen.hosts)].filter(host => !own.includes(host));
server.close();
answer(seen);
