// What a person does with a bundle's index.html, opened from disk: node page.mjs INDEX.HTML CSV
// SCREENSHOTS
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const [html, csv, screenshots] = process.argv.slice(2);
const url = pathToFileURL(html).href;
const browser = await launch();
const seen = {};
const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
const { page, problems } = await openPage(context);
const text = id => page.textContent(`#${id}`);
const number = async id => Number(await text(id));
const ready = () =>
  page.waitForFunction(
    () => /parameters/.test(document.getElementById('status').textContent),
    null,
    {
      timeout: 120000,
    },
  );
const until = step =>
  page.waitForFunction(step => Number(document.getElementById('step').textContent) >= step, step, {
    timeout: 120000,
  });
const status = pattern =>
  page
    .waitForFunction(
      pattern => new RegExp(pattern).test(document.getElementById('status').textContent),
      pattern,
      { timeout: 60000 },
    )
    .catch(async error => {
      throw Error(`waited for ${pattern}, but found: ${await text('status')}`, { cause: error });
    });

await page.goto(url);
await ready();
seen.status = await text('status');

// trains to a falling loss, while the page stays responsive
await startTracing(browser, page);
await page.click('#start');
await until(10);
seen.first = await number('loss');
await until(200);
seen.longest = longestTask(await browser.stopTracing());
await page.click('#start');
await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
seen.last = await number('loss');
seen.step = await number('step');
await page.waitForTimeout(500);
seen.stopped = (await number('step')) === seen.step;
await page.screenshot({ path: join(screenshots, 'page-light.png'), fullPage: true });

// saves, reloads, restores; and the same by file
await page.click('#save');
await status('Saved');
const download = page.waitForEvent('download');
await page.click('#download');
const file = join(screenshots, 'checkpoint.safetensors');
await (await download).saveAs(file);
await page.reload();
await ready();
seen.reloaded = await number('step');
await page.click('[aria-label="Restore my model"]');
await status('Restored');
seen.restored = await number('step');
await page.click('#reset');
await page.waitForFunction(() => document.getElementById('step').textContent === '0');
await page.setInputFiles('#open', file);
await status('Opened');
seen.opened = await number('step');

// own data, a wrong file, a seed, the kernels
await page.setInputFiles('#file', csv);
await page.click('text=Go on learning');
await page.waitForFunction(() => /to learn from/.test(document.getElementById('rows').textContent));
seen.rows = await text('rows');
await page.click('#start');
await until(seen.step + 20);
await page.click('#start');
await page.setInputFiles('#file', {
  name: 'bad.csv',
  mimeType: 'text/csv',
  buffer: Buffer.from('1\n2\n'),
});
await page.waitForSelector('#data-problem:not([hidden])');
seen.bad = await text('data-problem');
seen.canTrain = await page.isEnabled('#start');
await page.click('#generate');
await page.click('text=Start anew');
await page.fill('#seed', '5');
await page.click('#reset');
await page.waitForFunction(() => document.getElementById('step').textContent === '0');
await page.click('#kernels > summary');
await page.click('#kernels details summary');
await page.waitForSelector('#kernels pre');
seen.kernel = await page.textContent('#kernels details');
seen.wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);

// dark
await page.emulateMedia({ colorScheme: 'dark' });
await page.setViewportSize({ width: 900, height: 900 });
await page.click('#start');
await until(50);
await page.click('#start');
await page.screenshot({ path: join(screenshots, 'page-dark.png') });

seen.problems = problems;

// without WebGPU
const plain = await launch({
  args: [
    '--no-sandbox',
    '--disable-features=WebGPU',
    '--disable-webgpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-quic',
  ],
});
const other = await openPage(plain, { viewport: { width: 390, height: 700 } });
await other.page.addInitScript(() =>
  Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined }),
);
await other.page.goto(url);
await other.page.waitForSelector('#problem:not([hidden])');
seen.without = await other.page.textContent('#problem');
seen.withoutProblems = other.problems;
await other.page.screenshot({ path: join(screenshots, 'page-without.png') });
answer(seen);
