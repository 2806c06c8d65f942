// Steps of one library in a page of Chromium, with WebGPU on SwiftShader: the task is the first line
// of stdin; each further line asks for a block of steps and is answered by a line of JSON.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { launch, openPage, serve } from '../web/browser.mjs';
import { reply, requests } from './requests.mjs';

const lines = requests();
const {
  value: { folder, library, ...task },
} = await lines.next();
const server = await serve({ '/': folder });
const count = readFileSync(join(import.meta.dirname, 'pages', 'count.js'), 'utf8');

/** What a page loaded to run: scripts minified, and everything compressed as servers send it. */
function codeOf(urls) {
  const sizes = urls.map(
    url => gzipSync(readFileSync(join(folder, new URL(url).pathname)), { level: 9 }).length,
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Milliseconds of CPU time of the browser's processes: less noisy than a clock on a busy machine. */
async function cpuOf(session) {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return 1000 * processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** The browser's own start is no library's. */
async function warmUp(browser) {
  const { page } = await openPage(browser);
  await page.goto(`${server.url}/empty.html`);
  await page.evaluate(async () => (await navigator.gpu.requestAdapter()).requestDevice());
  await page.close();
}

/** A page whose first step is made. */
async function open(browser, session) {
  const { page, problems } = await openPage(browser);
  const before = await cpuOf(session);
  const loaded = new Set();
  page.setDefaultTimeout(300000);
  page.on('response', answer => /\.(js|wasm)$/.test(answer.url()) && loaded.add(answer.url()));
  await page.addInitScript(count);
  await page.goto(`${server.url}/${library}.html?${new URLSearchParams(task)}`);
  await page.waitForFunction(() => globalThis.begun, null, { polling: 20 });
  const { failed, firstStep } = await page.evaluate(() => globalThis.begun);
  const firstCpu = (await cpuOf(session)) - before;
  reply(
    failed
      ? { failed: [failed, ...problems].join('\n') }
      : { firstStep, firstCpu, code: codeOf([...loaded]) },
  );
  return page;
}

const browser = await launch();
await warmUp(browser);
const session = await browser.newBrowserCDPSession();
const page = await open(browser, session);
for await (const request of lines) {
  if (request.profile) {
    reply(await page.evaluate(entry => model.profile(entry, 3), request.profile));
    continue;
  }
  const before = await cpuOf(session);
  const seen = await page.evaluate(asked => block(asked), request);
  reply({ ...seen, cpu: (await cpuOf(session)) - before });
}
await browser.close();
process.exit(0);
