// A bundle with a twin, in pages of Chromium without a GPU: opened from a disk, under policies that
// forbid workers or WebAssembly, from http: node wasm_pages.mjs BUNDLE
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, FLAGS, launch, openPage, serve, watchWorkers } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const bundle = process.argv[2];
const plainFlags = FLAGS.filter(flag => !flag.includes('webgpu'));
const browser = await launch({
  args: [...plainFlags, '--host-resolver-rules=MAP school.test 127.0.0.1'],
});
const withSoftware = await launch();
/** Pages that may have threads. */
const isolated = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

/** The bundle's own page: trains, and says what it runs on. */
async function ownPage(url) {
  const { page, problems } = await openPage(browser);
  await page.addInitScript(() =>
    Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }),
  );
  await page.addInitScript(watchWorkers);
  await page.goto(url);
  await page.waitForFunction(() =>
    /parameters/.test(document.getElementById('status').textContent),
  );
  const status = await page.textContent('#status');
  await startTracing(browser, page);
  await page.click('#start');
  await page.waitForFunction(() => Number(document.getElementById('step').textContent) >= 200);
  await page.click('#start');
  const longest = longestTask(await browser.stopTracing());
  const loss = Number(await page.textContent('#loss'));
  const hasProblem = await page.isVisible('#problem');
  const replies = await page.evaluate(() => globalThis.replies);
  await page.close();
  return { status, loss, longest, hasProblem, problems, replies };
}

/** index.js under a policy: what it runs on, or why not; which files it fetched. */
async function underPolicy(policy, visitor = browser, options = {}) {
  const headers = policy ? { 'content-security-policy': policy } : {};
  const { url, close } = await serve({ '/': bundle }, { ...isolated, ...headers });
  const { page } = await openPage(visitor);
  const fetched = [];
  page.on('request', request => fetched.push(new URL(request.url()).pathname));
  await page.goto(`${url}/package.json`);
  const seen = await page.evaluate(async options => {
    try {
      const { load } = await import('/index.js');
      const model = await load(options);
      const batch = { x: new Float32Array(32).fill(1), y: new Float32Array(8).fill(2) };
      const losses = [];
      for await (const { loss } of model.fit(() => batch, { steps: 40, every: 20 }))
        losses.push(loss);
      const { kind, threads } = model.adapter;
      const found = { kind, threads, losses };
      model.dispose();
      return found;
    } catch (error) {
      return { message: error.message };
    }
  }, options);
  await page.close();
  close();
  return { ...seen, fetched };
}

const { url } = await serve({ '/': bundle });
const seen = {
  disk: await ownPage(pathToFileURL(join(bundle, 'index.html')).href),
  http: await ownPage(`${url.replace('127.0.0.1', 'school.test')}/index.html`),
  free: await underPolicy('', browser, { threads: 2 }),
  noWorkers: await underPolicy("script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'", browser, {
    threads: 2,
  }),
  noWasm: await underPolicy("script-src 'self'"),
  onGpu: await underPolicy('', withSoftware, { device: 'webgpu' }),
  noWasmButSoftware: await underPolicy("script-src 'self'", withSoftware),
};
answer(seen);
