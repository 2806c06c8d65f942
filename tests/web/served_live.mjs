// A page of `wgcc serve` while its model is edited: node served_live.mjs URL FILE RIGHT WRONG CHANGED
import { readFileSync, writeFileSync } from 'node:fs';
import { answer, launch, openPage } from './browser.mjs';

const [url, file, right, wrong, changed] = process.argv.slice(2);
const save = name => writeFileSync(file, readFileSync(name));
const browser = await launch();
const { page, problems } = await openPage(browser);
page.setDefaultTimeout(120000);
await page.goto(url);
// The first build may not be finished yet: the page that waits for it is replaced.
await page.waitForFunction(() => document.title === 'Net');
await page.waitForFunction(() => document.getElementById('status').textContent !== 'Loading…');
const seen = {
  title: await page.title(),
  isIsolated: await page.evaluate(() => crossOriginIsolated),
};
await page.evaluate(() => {
  globalThis.isOld = true;
});
save(wrong);
const overlay = page.locator('#wgcc-problem');
await overlay.waitFor();
seen.problem = await overlay.textContent();
seen.stays = await page.evaluate(() => globalThis.isOld === true);
save(right);
await page.waitForFunction(
  () => !globalThis.isOld && document.querySelector('#wgcc-problem') === null,
);
save(changed);
await page.waitForFunction(() => document.title === 'Other');
seen.changed = await page.title();
answer({ ...seen, problems: problems.filter(text => !text.includes('ERR_INCOMPLETE_CHUNKED')) });
