// Runs a model in Chromium on SwiftShader, one page per library, alternately: node drive.mjs, its task as JSON on stdin.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { answer, launch, openPage, serve } from '../web/browser.mjs';

const { model, libraries, folder, rounds, seconds, most, profile } = JSON.parse(
  readFileSync(0, 'utf8'),
);
const server = await serve({ '/': folder });
const count = readFileSync(join(import.meta.dirname, 'pages', 'count.js'), 'utf8');

/** Code a page loaded, minified and compressed as servers send it. */
function codeOf(urls) {
  const sizes = urls.map(
    url => gzipSync(readFileSync(join(folder, new URL(url).pathname)), { level: 9 }).length,
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Seconds of CPU time that a browser's processes have taken: less noisy than a clock on a busy machine. */
async function cpuOf(session) {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** A browser of its own, with nothing cached, and in it a page whose first step is made. */
async function open(library) {
  const browser = await launch();
  const { page: empty } = await openPage(browser);
  // The browser's own start is no library's.
  await empty.goto(`${server.url}/empty.html`);
  await empty.evaluate(async () => (await navigator.gpu.requestAdapter()).requestDevice());
  await empty.close();
  const { page, problems } = await openPage(browser);
  const session = await browser.newBrowserCDPSession();
  const before = await cpuOf(session);
  const scripts = [];
  page.setDefaultTimeout(300000);
  page.on('response', response => response.url().endsWith('.js') && scripts.push(response.url()));
  await page.addInitScript(count);
  await page.goto(`${server.url}/${library}.html?model=${model}`);
  await page.waitForFunction(() => globalThis.begun, null, { polling: 20 });
  const { failed, firstStep } = await page.evaluate(() => globalThis.begun);
  if (failed) return { browser, failed: [failed, ...problems].join('\n') };
  const firstCpu = (await cpuOf(session)) - before;
  const code = codeOf([...new Set(scripts)]);
  return { browser, page, session, firstStep, firstCpu, code, ms: [], cpu: 0 };
}

const found = {};
for (const library of libraries) found[library] = await open(library);

for (let round = -1; round < rounds; round++)
  for (const library of libraries) {
    const { page, ms, session } = found[library];
    // One step of a very slow library is enough.
    if (!page || ms.some(time => time > 5000 * seconds)) continue;
    const before = await cpuOf(session);
    // The round before the first warms up; a slow library makes fewer steps, but some in each round.
    const { ms: times, ...rest } = await page.evaluate(
      ([seconds, most]) => block(seconds, most),
      round < 0 ? [0, 1] : [seconds, most],
    );
    if (round >= 0) {
      ms.push(...times);
      found[library].cpu += 1000 * ((await cpuOf(session)) - before);
    }
    Object.assign(found[library], rest);
  }
const { page } = found.wgcc ?? {};
if (page && profile)
  found.wgcc.kernels = await page.evaluate(entry => model.profile(entry, 3), profile);
for (const library of libraries) {
  await found[library].browser?.close();
  for (const key of ['browser', 'page', 'session']) delete found[library][key];
}
server.close();
answer(found);
