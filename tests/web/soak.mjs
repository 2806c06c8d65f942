// Trains a bundle for many steps in Chromium and measures its memory: node soak.mjs BUNDLE STEPS
// The first measurements themselves add some kilobytes to the script's heap, no matter how few steps
// are between them. So WARM_UP measurements are discarded; then there is one before the steps, and
// one after each half of them. Each has: steps, bytes of the script's heap after a collection, GPU
// buffers alive, resident bytes of the browser's processes by kind (Linux), milliseconds per step
// since the last one.
import { readFileSync } from 'node:fs';
import { answer, FLAGS, launch, openPage, serve } from './browser.mjs';

const [bundle, steps] = process.argv.slice(2);
const server = await serve({ '/bundle/': bundle });
const browser = await launch({
  args: [...FLAGS, '--js-flags=--expose-gc', '--enable-precise-memory-info'],
});
const { page, problems } = await openPage(browser);
const system = await browser.newBrowserCDPSession();
const looks = [];
const WARM_UP = 20;

async function resident() {
  const { processInfo } = await system.send('SystemInfo.getProcessInfo');
  const found = {};
  for (const { id, type } of processInfo)
    try {
      found[type] =
        (found[type] ?? 0) + 4096 * Number(readFileSync(`/proc/${id}/statm`, 'utf8').split(' ')[1]);
    } catch {} // the process has ended, or this is not Linux
  return found;
}

await page.goto(`${server.url}/bundle/plan.json`); // a page of this origin without scripts
await page.evaluate(async () => {
  const { load } = await import('/bundle/index.js');
  const model = await load({ device: 'webgpu' });
  const n = 256;
  const x = Float32Array.from({ length: 8 * n }, (_, i) => Math.sin(i) * 3);
  const { createBuffer } = model.device;
  window.alive = 0;
  model.device.createBuffer = function (what) {
    const buffer = createBuffer.call(this, what);
    const { destroy } = buffer;
    window.alive++;
    buffer.destroy = function () {
      window.alive--;
      destroy.call(this);
    };
    return buffer;
  };
  window.fit = async steps => {
    const started = performance.now();
    let last;
    for await (last of model.fit({ x, y: x.map(Math.sin) }, { steps, every: 50, snapshot: 1 }));
    const ms = (performance.now() - started) / steps;
    // What the GPU process still held is free only a moment later.
    for (let i = 0; i < 3; i++) {
      gc();
      await new Promise(done => setTimeout(done, 100));
    }
    return {
      step: last.step,
      loss: last.loss,
      heap: performance.memory.usedJSHeapSize,
      alive: window.alive,
      ms,
    };
  };
});
for (let i = 0; i < WARM_UP + 2; i++) {
  const look = await page.evaluate(
    steps => window.fit(steps),
    i < WARM_UP ? 50 : Math.ceil(steps / 2),
  );
  if (i >= WARM_UP - 1) looks.push({ ...look, resident: await resident() });
}
answer({ looks, problems });
