// How long the workbench takes in Chromium, in milliseconds: node workbench_stopwatch.mjs SITE
import { answer, launch, openPage, serve } from './browser.mjs';

const LONG = { timeout: 600_000 };
const server = await serve({ '/': process.argv[2] });
const browser = await launch();
const { page } = await openPage(browser);
const times = {};

async function visit(name) {
  const since = performance.now();
  const lap = part => {
    times[`${name}: ${part}`] = Math.round(performance.now() - since);
  };
  // The last program opens again: the first one is the same at each visit.
  if (page.url() !== 'about:blank') await page.selectOption('#examples', 'sin');
  await page.goto(`${server.url}/`);
  await page.waitForSelector('.cm-content');
  lap('editor');
  await page.waitForFunction(() => globalThis.wgccChecked, null, LONG);
  lap('first check');
}

/** The last of several checks and builds, as the compiler's worker measured them. */
async function measure(example) {
  await page.evaluate(() => {
    globalThis.wgccChecked = undefined;
  });
  await page.selectOption('#examples', example);
  for (let turn = 0; turn < 3; turn++) {
    await page.waitForFunction(() => globalThis.wgccChecked, null, LONG);
    times[`${example}: check`] = await page.evaluate(() => Math.round(globalThis.wgccChecked.ms));
    await page.evaluate(() => {
      globalThis.wgccChecked = undefined;
    });
    await page.click('.cm-content');
    await page.keyboard.press('Control+Home');
    await page.keyboard.insertText('// once more\n');
  }
  for (let turn = 0; turn < 2; turn++) {
    await page.evaluate(() => {
      globalThis.wgccBuilt = undefined;
    });
    await page.waitForFunction(
      () => !document.getElementById('train').disabled && document.getElementById('cancel').hidden,
      null,
      LONG,
    );
    await page.click('#train');
    await page.waitForFunction(() => globalThis.wgccBuilt, null, LONG);
    times[`${example}: build`] = await page.evaluate(() => Math.round(globalThis.wgccBuilt.ms));
  }
}

await visit('first visit');
for (const example of ['sin', 'chargpt']) await measure(example);
times['heap in MB'] = await page.evaluate(() => Math.round(globalThis.wgccChecked.heap / 1e6));
await page.waitForFunction(() => globalThis.wgccKept, null, LONG);
await visit('later visit');
await browser.close();
server.close();
answer(times);
