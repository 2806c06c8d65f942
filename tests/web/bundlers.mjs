// What apps made by web bundlers do in Chromium: node bundlers.mjs FOLDER < pages.json
// FOLDER has `app`, `bundle` and what was built. A page is [name, script, options of load].
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage, serve } from './browser.mjs';

const [folder] = process.argv.slice(2);
const pages = JSON.parse(readFileSync(0, 'utf8'));
const { url, close } = await serve({ '/': folder });
const browser = await launch();
const seen = {};
for (const [name, script, options] of pages) seen[name] = await visit(`${url}/x/`, script, options);
seen['vite dev'] = await develop({ fs: { allow: ['..'] } });
seen['vite dev, not allowed'] = await develop({ fs: { allow: ['.'] } });
seen.shared = await share();
await browser.close();
close();
answer(seen);

/** What the script of a page gives. A module, unless its name says something else. */
async function visit(address, script, options = {}) {
  const { page } = await openPage(browser);
  const type = script.includes('iife') ? '' : ' type="module"';
  const html = `<!doctype html><link rel="icon" href="data:,">
<script>globalThis.options = ${JSON.stringify(options)};</script><script${type} src="${script}"></script>`;
  await page.route(address, route => route.fulfill({ contentType: 'text/html', body: html }));
  const texts = [];
  page.on('console', message => texts.push(message.text()));
  page.on('response', response => {
    if (!response.ok()) texts.push(response.text().catch(String));
  });
  await page.goto(address);
  const result = await page.evaluate(() => globalThis.results);
  const message = (await Promise.all(texts)).join('\n');
  await page.close();
  return result ?? { message };
}

/** vite's development server, with the bundle outside its root. */
async function develop(server) {
  const require = createRequire(join(process.env.NODE_FOLDER, 'from-here.js'));
  const { createServer } = await import(pathToFileURL(require.resolve('vite')).href);
  const vite = await createServer({
    root: join(folder, 'app'),
    configFile: false,
    logLevel: 'silent',
    server: { port: 0, host: '127.0.0.1', ...server },
  });
  await vite.listen();
  const [local] = vite.resolvedUrls.local;
  const result = await visit(`${local}x/`, '/main.js');
  await vite.close();
  return result;
}

/** Two bundles on one page, with one runtime and one device. */
async function share() {
  const { page } = await openPage(browser);
  const imports = { '/second/wgcc.js': '/bundle/wgcc.js' };
  const html = `<!doctype html><link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify({ imports })}</script>`;
  await page.route(`${url}/x/`, route => route.fulfill({ contentType: 'text/html', body: html }));
  await page.goto(`${url}/x/`);
  const result = await page.evaluate(useBoth);
  await page.close();
  return result;
}

/** In the page. */
async function useBoth() {
  const [a, b] = await Promise.all(['/bundle/index.js', '/second/index.js'].map(at => import(at)));
  const first = await a.load({ device: 'webgpu' });
  const second = await b.load({ device: first.device });
  const third = await b.load({ device: first.device });
  const calls = [
    async () => (await first.predict({ x: new Float32Array(18) })).y[0],
    async () => (await second.push({ row: new Float32Array(3) })).count[0],
  ];
  // At the same time: what one does is not mistaken for what the other does.
  await Promise.all(calls.map(call => call()));
  const isOneDevice = second.device === first.device && third.device === first.device;
  third.dispose();
  const afterDispose = typeof (await calls[0]());
  first.device.destroy();
  await first.lost;
  const lost = await Promise.all(calls.map(call => call().catch(({ code }) => code)));
  await first.recover();
  await second.recover(first.device);
  const recovered = [];
  for (const call of calls) recovered.push(typeof (await call()));
  return {
    isOneClass: a.WgccError === b.WgccError,
    fetched: performance
      .getEntriesByType('resource')
      .map(({ name }) => new URL(name).pathname)
      .filter(name => name.endsWith('wgcc.js')),
    isOneDevice,
    afterDispose,
    lost,
    recovered,
    isOneDeviceAgain: second.device === first.device,
  };
}
