// The served page of a bundle on a host that isolates no page: node threads_anywhere.mjs BUNDLE

import { answer, launch, openPage, serve } from './browser.mjs';

const [bundle] = process.argv.slice(2);
const server = await serve({ '/models/': bundle, '/elsewhere/': bundle });
const ready = () => globalThis.wgccPage?.isReady;
const facts = () => {
  const { threads, threadLimit } = globalThis.wgccPage.model.adapter;
  const { hidden, textContent } = document.getElementById('threads');
  const status = document.getElementById('status').textContent;
  return { threads, threadLimit, button: hidden ? '' : textContent, status };
};

/** A browser without a GPU, on a machine with eight processors. */
async function visit(use) {
  const browser = await launch({ args: ['--no-sandbox', '--disable-gpu', '--disable-quic'] });
  const { page, problems } = await openPage(await browser.newContext());
  await page.addInitScript(() => {
    Object.defineProperty(navigator, 'hardwareConcurrency', { get: () => 8 });
  });
  const seen = await use(page);
  await browser.close();
  return { ...seen, problems };
}

async function train(page) {
  await page.fill('#target', '10');
  await page.fill('#seed', '3');
  await page.click('#reset');
  await page.click('#start');
  await page.waitForFunction(
    () => /Trained to step 10/.test(document.getElementById('status').textContent),
    null,
    { timeout: 120000 },
  );
  return page.evaluate(async () => {
    const bytes = await crypto.subtle.digest('SHA-256', await globalThis.wgccPage.model.save());
    return Array.from(new Uint8Array(bytes)).join();
  });
}

async function reloaded(page, button) {
  const loading = page.waitForEvent('load');
  await page.click(`#${button}`);
  await loading;
  await page.waitForFunction(ready, null, { timeout: 120000 });
  return page.evaluate(facts);
}

/** In a page that is not isolated. */
async function frame(page) {
  await page.goto(`${server.url}/elsewhere/plan.json`);
  await page.evaluate(() => {
    const frame = document.createElement('iframe');
    frame.src = '/models/served.html';
    document.body.append(frame);
  });
  const inner = await (await page.waitForSelector('iframe')).contentFrame();
  await inner.waitForFunction(ready, null, { timeout: 120000 });
  return inner.evaluate(facts);
}

const seen = await visit(async page => {
  await page.goto(`${server.url}/models/served.html`);
  await page.waitForFunction(ready, null, { timeout: 120000 });
  const before = { ...(await page.evaluate(facts)), weights: await train(page) };
  page.on('dialog', dialog => dialog.accept());
  const isolated = await reloaded(page, 'threads');
  isolated.weights = await train(page);
  await page.click('#offline');
  await page.waitForFunction(() =>
    /works without/.test(document.getElementById('status').textContent),
  );
  await page.context().setOffline(true);
  await page.goto(`${server.url}/models/served.html`);
  await page.waitForFunction(ready, null, { timeout: 120000 });
  const offline = await page.evaluate(facts);
  await page.context().setOffline(false);
  const framed = await frame(page);
  await page.goto(`${server.url}/models/served.html`);
  await page.waitForFunction(ready, null, { timeout: 120000 });
  const after = await reloaded(page, 'threads');
  const offlineButton = await page.textContent('#offline');
  return { before, isolated, offline, framed, after, offlineButton };
});
server.close();
answer(seen);
