// A person teaches a pretrained model new classes on its page:
//   node known_classes.mjs BUNDLE PICTURES
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';

const [bundle, folder] = process.argv.slice(2);
const browser = await launch();
const { page, problems } = await openPage(await browser.newContext());
await page.goto(pathToFileURL(join(bundle, 'index.html')).href);
await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
const text = id => page.textContent(`#${id}`);

/** Chooses the pictures of a folder, and waits until `id` says something. */
async function choose(name, id) {
  const files = readdirSync(join(folder, name)).sort();
  await page.setInputFiles(
    '#file',
    files.map(file => join(folder, name, file)),
  );
  await page.waitForSelector(`:is(#${id}):not([hidden])`);
}
const inPage = job => page.evaluate(job);
const idsRead = () =>
  inPage(() => {
    const { train, heldOut } = globalThis.wgccPage.data;
    return [...train.arrays.target, ...(heldOut?.target ?? [])].sort((a, b) => a - b);
  });

await choose('shapes', 'held-out-choice');
await page.waitForFunction(() => !document.getElementById('start').disabled);
const ids = await idsRead();
await page.fill('#target', '60');
await page.selectOption('#target-unit', 'steps');
await page.click('#start');
await page.waitForFunction(
  () => /Trained to step 60/.test(document.getElementById('status').textContent),
  null,
  { timeout: 120000 },
);
const best = await inPage(async () => {
  const { model, data } = globalThis.wgccPage;
  const parts = [data.train.arrays, data.heldOut].filter(Boolean);
  const rows = [];
  for (const { x, target } of parts) {
    const { scores } = await model.predict({ x });
    for (let i = 0; i < target.length; i++) {
      const row = [...scores.slice(i * 12, i * 12 + 12)];
      rows.push([target[i], row.indexOf(Math.max(...row))]);
    }
  }
  return rows.sort((a, b) => a[0] - b[0]).map(([, id]) => id);
});
const shown = await inPage(() => globalThis.wgccPage.model.classes);
const tried = await text('try');
await choose('stars', 'data-question');
await page.click('text=Go on learning');
await page.waitForFunction(() => !document.getElementById('start').disabled);
const subset = await idsRead();
// The other names fill all classes, so that a third one has no place, however the model goes on.
await choose('moons', 'data-question, #data-problem');
if (await page.isVisible('#data-question')) await page.click('text=Go on learning');
await page.waitForSelector('#data-problem:not([hidden])');
const refused = await text('data-problem');
answer({ problems, ids, best, shown, tried, subset, refused });
