// The served page of a bundle when the network goes: node offline.mjs BUNDLE

import { setTimeout } from 'node:timers/promises';
import { answer, launch, openPage, serve } from './browser.mjs';

const [bundle] = process.argv.slice(2);
const server = await serve({ '/': bundle });
const browser = await launch();
const context = await browser.newContext();
const { page, problems } = await openPage(context);
const fetched = new Set();
page.on('response', response => {
  const { protocol, pathname } = new URL(response.url());
  if (protocol === 'http:') fetched.add(pathname);
});
const text = id => page.textContent(`#${id}`);
const workers = () =>
  page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length);

async function open() {
  await page.goto(`${server.url}/served.html`);
  await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
}
async function train() {
  await page.fill('#target', '20');
  await page.selectOption('#target-unit', 'steps');
  await page.click('#start');
  await page.waitForFunction(
    () => /Trained to step 20|network/.test(document.getElementById('status').textContent),
    null,
    { timeout: 120000 },
  );
  return text('step');
}

await open();
// Everything that the page asks for has arrived.
while (!['fit', 'calls', 'check', 'inspect'].every(name => fetched.has(`/wgcc/${name}.js`)))
  await setTimeout(20);
await context.setOffline(true);
const loaded = { step: await train(), workers: await workers(), button: await text('offline') };
const missing = await page.evaluate(async () => {
  const { load } = await import(new URL('index.js', document.baseURI).href);
  return load({ worker: true }).catch(error => error.message);
});

await context.setOffline(false);
await open();
await page.click('#offline');
await page.waitForFunction(() =>
  /works without/.test(document.getElementById('status').textContent),
);
const kept = { status: await text('status') };
server.close();
await context.setOffline(true);
await open();
const reopened = { step: await train(), button: await text('offline') };
// A worker of the runtime is a script of its own.
reopened.worker = await page.evaluate(async () => {
  const { load } = await import(new URL('index.js', document.baseURI).href);
  const model = await load({ worker: true, device: 'wasm' });
  const { y } = await model.predict({ x: new Float32Array(18) });
  model.dispose();
  return typeof y[0];
});
await page.click('#offline');
await page.waitForFunction(() => /is gone/.test(document.getElementById('status').textContent));
const forgotten = { caches: await page.evaluate(() => caches.keys()), workers: await workers() };
answer({ problems, loaded, kept, reopened, forgotten, missing, fetched: [...fetched] });
