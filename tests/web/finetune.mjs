// The page of examples/finetune, used as a person would: node finetune.mjs PAGE FILES, where FILES is
// a folder with files of a kind that the model does not know. Screenshots are put beside the page.
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const [path, folder] = process.argv.slice(2);
const browser = await launch();
const { page, problems } = await openPage(browser, { viewport: { width: 1100, height: 900 } });
await page.goto(pathToFileURL(path).href);
const status = words =>
  page.waitForFunction(
    words => document.getElementById('status').textContent.includes(words),
    words,
    {
      timeout: 120000,
    },
  );
const scores = async () => [
  await page.textContent('#new-score'),
  await page.textContent('#known-score'),
];
const best = side => page.textContent(`#${side} .bar.best`);

await status('Press Train');
const before = await scores();
await startTracing(browser, page);

// Files of a kind of one's own: two of the six are for the test.
await page.fill('#own-name', 'pgn');
const own = (await readdir(folder)).sort().map(name => join(folder, name));
await page.setInputFiles('#own-files', own);
await status('6 files of pgn');
const lesson = await page.textContent('#lesson');

await page.evaluate(() => {
  globalThis.losses = [];
  globalThis.said = [];
  const line = document.getElementById('status');
  new MutationObserver(() => globalThis.said.push(line.textContent)).observe(line, {
    childList: true,
  });
  const shown = document.getElementById('loss');
  new MutationObserver(() => globalThis.losses.push(parseFloat(shown.textContent))).observe(shown, {
    childList: true,
  });
});
// By the keyboard alone.
await page.focus('#start');
await page.keyboard.press('Enter');
await status('Learned on');
const after = await scores();
const losses = await page.evaluate(() => globalThis.losses);
const said = await page.evaluate(() => globalThis.said);
const asked = await page.evaluate(() => {
  const event = new Event('beforeunload', { cancelable: true });
  window.dispatchEvent(event);
  return event.defaultPrevented;
});
const device = (await page.textContent('#status')).split(':')[0];

await page.fill(
  '#text',
  'dim B = 4\n\nmodel M {\n  fc: Linear[2, 3]\n  entry predict(x: f32[B, 2]) -> (y: f32[B, 3]) = fc(x)\n}\n',
);
await page.waitForFunction(() => document.querySelectorAll('#after .bar').length === 4);
const pasted = [await best('before'), await best('after')];
const longest = [longestTask(await browser.stopTracing())];
const shot = name => page.screenshot({ path: join(dirname(path), `${name}.png`), fullPage: true });
await shot('light');
await page.emulateMedia({ colorScheme: 'dark' });
await shot('dark');
await page.setViewportSize({ width: 390, height: 844 });
await shot('phone');
const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
await startTracing(browser, page);

await page.click('#known summary');
await page.click('#known-files button >> nth=0');
await page.waitForFunction(() =>
  /data_panel.css/.test(document.getElementById('tried').textContent),
);
await page.fill('#text', '   a ');
await page.waitForFunction(() => /too short/.test(document.getElementById('tried').textContent));

const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save')]);
const saved = join(dirname(path), 'personal.safetensors');
await download.saveAs(saved);
await page.click('#reset');
await status('as it was imported');
const forgotten = await scores();
await page.setInputFiles('#open', saved);
await status('Opened personal.safetensors');
const opened = await scores();
await page.click('#new-files button >> nth=0');
await page.waitForFunction(() => document.querySelectorAll('#after .bar').length === 4);
longest.push(longestTask(await browser.stopTracing()));
answer({
  problems,
  before,
  after,
  forgotten,
  opened,
  lesson,
  losses,
  said,
  asked,
  device,
  pasted,
  longest,
  wide,
});
