// Training on two million rows, and with a function that is slow: node large.mjs BUNDLE. How long the
// page's main thread was busy.
import { answer, launch, openPage, serve } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const [folder] = process.argv.slice(2);
const server = await serve({ '/bundle/': folder, '/': folder });
const browser = await launch();
const { page, problems } = await openPage(browser);
await page.goto(`${server.url}/plan.json`);
await page.evaluate(async () => {
  const { load } = await import('/bundle/index.js');
  globalThis.model = await load({ device: 'wasm' });
  const x = Float32Array.from({ length: 6_000_000 }, (_, i) => Math.sin(i));
  const label = Array.from({ length: 2_000_000 }, (_, i) => i % 2);
  globalThis.data = { x, label };
  await globalThis.model.train({ x: x.subarray(0, 24), label: label.slice(0, 8) });
});
await startTracing(browser, page);
const history = await page.evaluate(async () => {
  const { model, data } = globalThis;
  const { steps, losses } = await model.fit(data, { steps: 20 });
  const batch = { x: data.x.subarray(0, 24), label: data.label.slice(0, 8) };
  const slow = () => {
    const end = performance.now() + 15;
    while (performance.now() < end);
    return batch;
  };
  await model.fit(slow, { steps: 40, every: 20 });
  return { steps, losses };
});
const longest = longestTask(await browser.stopTracing());
answer({ ...history, longest, problems });
