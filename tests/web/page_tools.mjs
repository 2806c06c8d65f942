// What tests of bundles' pages share: one browser, and what a person does on every page.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { FLAGS, launch, openPage } from './browser.mjs';

export const [folder] = process.argv.slice(2);
const urlOf = name => pathToFileURL(join(folder, name, 'index.html')).href;
const browser = await launch({
  args: [...FLAGS, '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
});
export const context = await browser.newContext({
  viewport: { width: 1280, height: 900 },
  acceptDownloads: true,
});
// What the pages say while they load, in `said`.
await context.addInitScript(() => {
  globalThis.said = [];
  // Also what is replaced before it is painted.
  const note = changes => {
    for (const { target, addedNodes } of changes)
      if (target.id === 'status')
        for (const { textContent } of addedNodes) globalThis.said.push(textContent);
  };
  new MutationObserver(note).observe(document, { childList: true, subtree: true });
});
export const seen = { problems: [] };

/** A page of a bundle, when everything is shown. */
export async function open(name, hash = '') {
  const { page, problems } = await openPage(context);
  await page.goto(urlOf(name) + hash);
  await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
  seen.problems.push(problems);
  return page;
}
/** What the model is called with from now on: the last is `called`. */
export const watchCalls = page =>
  page.evaluate(() => {
    const { model } = globalThis.wgccPage;
    const { call } = model;
    model.call = (entry, inputs) => {
      globalThis.called = inputs;
      return call(entry, inputs);
    };
  });
export const text = (page, id) => page.textContent(`#${id}`);
const ended = page =>
  page.waitForFunction(() => document.getElementById('start').textContent === 'Train', null, {
    timeout: 120000,
  });
export async function train(page, steps, unit = 'steps') {
  await page.fill('#target', `${steps}`);
  await page.selectOption('#target-unit', unit);
  await page.click('#start');
  await ended(page);
}

export const status = (page, pattern) =>
  page.waitForFunction(
    pattern => new RegExp(pattern).test(document.getElementById('status').textContent),
    pattern,
  );
