// The workbench in Chromium: node workbench.mjs SITE. With WebGPU: a mistake, its fix, training, a
// kernel and its line, an address, no network. Without WebGPU, in a fresh profile: the address.
import { answer, FLAGS, launch, openPage, serve } from './browser.mjs';

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
async function train(page) {
  await page.click('#train');
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
  return { state: await state(page), losses: await lossesOf(page), status, kind };
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

async function tabs(page) {
  seen.tabs = {};
  for (const name of ['Stages', 'Memory', 'Files']) {
    await page.click(`#tabs button:text-is("${name}")`);
    await page.waitForFunction(
      kind => document.querySelector(kind),
      { Stages: '#shown .added', Memory: '#shown svg rect', Files: '#shown td' }[name],
    );
    seen.tabs[name] = (await page.textContent('#shown')).length;
  }
  await page.click('#tabs button:text-is("Run")');
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
  await page.context().setOffline(true);
  await page.reload();
  await checked(page, 0);
  return state(page);
}

const browser = await launch();
const { page, problems } = await open(browser, `${server.url}/`);
seen.first = await state(page);
await checked(page, 0);
seen.heap = await page.evaluate(() => globalThis.wgccChecked.heap);
await mistakeAndFix(page);
// A software adapter is used only if it is asked for.
await page.selectOption('#device', 'webgpu');
seen.webgpu = await train(page);
// While the last model trains: the next one takes its place.
seen.again = await train(page);
await kernelAndBack(page);
await tabs(page);
await page.click('#share');
await page.waitForFunction(() => location.hash.length > 100);
const address = page.url();
seen.problems = [...problems];
seen.inline = await inlineScript(page);
seen.offline = await withoutNetwork(page);
await browser.close();

const plain = await launch({ args: FLAGS.filter(flag => !flag.includes('webgpu')) });
const fresh = await open(plain, `${address.replace(/\/#/, '/?embed#')}`);
await checked(fresh.page, 0);
seen.shared = await fresh.page.textContent('.cm-content');
seen.twin = await train(fresh.page);
// Chromium itself says so where there is no GPU.
seen.freshProblems = fresh.problems.filter(text => !text.includes('No available adapters'));
await plain.close();
const own = ['', new URL(server.url).host];
seen.hosts = [...new Set(seen.hosts)].filter(host => !own.includes(host));
server.close();
answer(seen);
