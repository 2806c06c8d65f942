// How long the workbench takes in Chromium: node workbench_stopwatch.mjs SITE. Prints milliseconds on the
// clock, and of the processor: what all threads of the page's process took, which other work on the
// machine does not change. Last, the longest task of the page's own thread.
import { answer, launch, openPage, serve } from './browser.mjs';

const LONG = { timeout: 600_000 };
const TURNS = 3;
const server = await serve({ '/': process.argv[2] });
const browser = await launch();
const devtools = await browser.newBrowserCDPSession();
const { page } = await openPage(browser);
const times = {};

async function processorTime() {
  const { processInfo } = await devtools.send('SystemInfo.getProcessInfo');
  const own = processInfo.filter(({ type }) => type === 'renderer');
  return 1000 * own.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** The least of several turns, of each kind of time. */
async function time(name, job, turns = 1, after = async () => {}) {
  const found = [];
  for (let turn = 0; turn < turns; turn++) {
    const [cpu, since] = [await processorTime(), performance.now()];
    const ms = await job();
    found.push([ms ?? performance.now() - since, (await processorTime()) - cpu]);
    await after();
  }
  times[name] = [0, 1].map(kind => Math.round(Math.min(...found.map(both => both[kind]))));
}

async function visit(name) {
  // The last program opens again: the first one is the same at each visit.
  if (page.url() !== 'about:blank') await page.selectOption('#examples', 'sin');
  await page.goto('about:blank');
  await time(`${name}: editor`, async () => {
    await page.goto(`${server.url}/`);
    await page.waitForSelector('.cm-content');
  });
  await time(`${name}: first check`, () =>
    page.waitForFunction(() => globalThis.wgccChecked, null, LONG).then(() => {}),
  );
  for (const kind of [0, 1]) times[`${name}: first check`][kind] += times[`${name}: editor`][kind];
}

const forget = name =>
  page.evaluate(key => {
    globalThis[key] = undefined;
  }, name);
const ms = name => page.waitForFunction(key => globalThis[key]?.ms, name, LONG);

/** After an edit; the worker itself says how long it took. */
async function check() {
  await forget('wgccChecked');
  await page.keyboard.insertText('// once more\n');
  return (await ms('wgccChecked')).jsonValue();
}

async function build() {
  await forget('wgccBuilt');
  const isReady = () =>
    !document.getElementById('train').disabled && document.getElementById('cancel').hidden;
  await page.waitForFunction(isReady, null, LONG);
  await page.click('#train');
  return (await ms('wgccBuilt')).jsonValue();
}

/** The model that was built is at rest while the next one is. */
async function rest() {
  await page.waitForFunction(() => document.body.dataset.state === 'training', null, LONG);
  await page.click('#pause');
  await page.waitForFunction(() => document.body.dataset.state === 'ready', null, LONG);
}

async function measure(example) {
  await forget('wgccChecked');
  await page.selectOption('#examples', example);
  await ms('wgccChecked');
  await page.click('.cm-content');
  await page.keyboard.press('Control+Home');
  await time(`${example}: check`, check, TURNS);
  await time(`${example}: build`, build, TURNS, rest);
}

/** Milliseconds of the processor that the longest task of the page's thread took: Chromium has pages of its own. */
function longestTask(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const loads = traceEvents.filter(({ name }) => name === 'CommitLoad');
  const own = loads.filter(({ args }) => args.data.url.startsWith(server.url));
  const threads = traceEvents.filter(
    ({ args, pid }) => args?.name === 'CrRendererMain' && own.some(load => load.pid === pid),
  );
  const tasks = traceEvents.filter(
    ({ tid, pid, tdur }) => tdur && threads.some(main => main.tid === tid && main.pid === pid),
  );
  return Math.round(Math.max(...tasks.map(({ tdur }) => tdur)) / 1000);
}

await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline'] });
await visit('first visit');
// A compiler for later visits is made meanwhile.
await page.waitForFunction(() => globalThis.wgccKept, null, LONG);
for (const example of ['sin', 'chargpt']) await measure(example);
const heap = await page.evaluate(() => Math.round(globalThis.wgccChecked.heap / 1e6));
await visit('later visit');
const longest = longestTask(await browser.stopTracing());
await browser.close();
server.close();
answer({ times, 'heap in MB': heap, 'longest task of the page': longest });
