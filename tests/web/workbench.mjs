// The workbench in Chromium: node workbench.mjs SITE. A mistake, its fix, training by WebGPU and by the
// twin, captures, a kernel and its line, an address in a fresh profile, no network. The compiler is
// started once, and once more from what the page kept.
import { readFile } from 'node:fs/promises';
import { answer, launch, openPage, serve } from './browser.mjs';

const LONG = { timeout: 240_000 };
const server = await serve({ '/': process.argv[2] });
const seen = { hosts: [] };

async function open(browser, address) {
  const opened = await openPage(browser, { viewport: { width: 1400, height: 900 } });
  opened.page.on('request', request => seen.hosts.push(new URL(request.url()).host));
  await opened.page.goto(address);
  return opened;
}
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
  seen.problem = await page.textContent('.problem');
  seen.canTrain = await page.isEnabled('#train');
  await page.click('.problem button');
  await checked(page, 0);
  seen.fixed = await page.textContent('.cm-content');
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

/** A bundle's zip is opened again: its program is the one that was compiled. */
async function takeAwayAndOpen(page) {
  const [download] = await Promise.all([
    page.waitForEvent('download', LONG),
    page.selectOption('#take', 'zip'),
  ]);
  await page.setInputFiles('#open', {
    name: 'SinMLP.zip',
    mimeType: 'application/zip',
    buffer: await readFile(await download.path()),
  });
  await page.waitForFunction(() => globalThis.wgccChecked?.problems === 0, null, LONG);
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

const browser = await launch();
const { page, problems } = await open(browser, `${server.url}/`);
seen.first = await state(page);
await checked(page, 0);
seen.heap = await page.evaluate(() => globalThis.wgccChecked.heap);
await mistakeAndFix(page);
// A software adapter is used only if it is asked for.
await page.selectOption('#device', 'webgpu');
await lookInside(page);
await pauseStepUndo(page);
// The next model takes the place of the last.
await page.selectOption('#device', 'wasm');
await page.click('#sizes summary');
await page.fill('#size-fields label:has-text("H") input', '48');
await page.keyboard.press('Tab');
seen.twin = await train(page);
await kernelAndBack(page);
await otherLanguages(page);
await tabs(page);
await page.click('#share');
await page.waitForFunction(() => location.hash.length > 100);
const kept = () => localStorage['wgcc-workbench'];
seen.kept = await page.evaluate(kept);
const fresh = await open(browser, `${page.url().replace(/\/#/, '/?embed#')}`);
await fresh.page.waitForFunction(kept);
seen.shared = await fresh.page.evaluate(kept);
await fresh.page.close();
seen.opened = await takeAwayAndOpen(page);
seen.problems = [...problems, ...fresh.problems];
seen.inline = await inlineScript(page);
seen.offline = await withoutNetwork(page);
await browser.close();
const own = ['', new URL(server.url).host];
seen.hosts = [...new Set(seen.hosts)].filter(host => !own.includes(host));
server.close();
answer(seen);
