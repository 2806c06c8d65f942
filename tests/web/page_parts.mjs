// The parts of bundles' pages, as people use them: node page_parts.mjs FOLDER, which has a bundle for
// each kind of model. One browser; each function below is a page.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, FLAGS, launch, openPage } from './browser.mjs';

const [folder] = process.argv.slice(2);
const urlOf = name => pathToFileURL(join(folder, name, 'index.html')).href;
const browser = await launch({
  args: [...FLAGS, '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
});
const context = await browser.newContext({
  viewport: { width: 1280, height: 900 },
  acceptDownloads: true,
});
const seen = { problems: [] };

async function open(name, hash = '') {
  const { page, problems } = await openPage(context);
  await page.goto(urlOf(name) + hash);
  await page.waitForFunction(() => globalThis.wgccPage?.model, null, { timeout: 120000 });
  seen.problems.push(problems);
  return page;
}
const text = (page, id) => page.textContent(`#${id}`);
const ended = page =>
  page.waitForFunction(() => document.getElementById('start').textContent === 'Train', null, {
    timeout: 120000,
  });
async function train(page, steps, unit = 'steps') {
  await page.fill('#target', `${steps}`);
  await page.selectOption('#target-unit', unit);
  await page.click('#start');
  await ended(page);
}

/** A target with an end, every number that the model returns, a second curve. */
async function training() {
  const page = await open('iris');
  await train(page, 30);
  const first = await text(page, 'step');
  // 128 invented rows in batches of 16.
  await train(page, 2, 'epochs');
  const found = { first, second: await text(page, 'step') };
  found.numbers = await page.$$eval('#numbers > div:not([hidden])', all =>
    all.map(({ children }) => children[0].textContent),
  );
  found.lossLabel = await page.getAttribute('#plot', 'aria-label');
  found.legend = await page.isVisible('#legend');
  found.undone = await page.evaluate(checkUndone);
  await page.click('#reset');
  found.reset = await text(page, 'step');
  await page.evaluate(() => globalThis.wgccPage.use(null));
  found.isOff = await page.isDisabled('#start');
  found.why = await text(page, 'trains-on');
  await page.close();
  return found;
}
/** In a page: that measuring held-out rows changes nothing, and gives their loss. */
async function checkUndone() {
  const { model, data } = globalThis.wgccPage;
  const before = await model.save();
  document.getElementById('target').value = 1;
  document.getElementById('target-unit').value = 'steps';
  document.getElementById('start').click();
  await new Promise(done => setTimeout(done, 50));
  await globalThis.wgccPage.ended;
  const shown = Number(document.getElementById('loss-held-out').textContent);
  const after = await model.save();
  const step = model.progress.steps.train;
  const { loss } = await model.train(data.heldOut);
  await model.restore(before);
  for await (const _ of model.fit(data.train, { steps: 1 }));
  const again = await model.save();
  return {
    shown,
    loss: loss[0],
    step,
    isTrained: `${before}` !== `${after}`,
    isSame: `${after}` === `${again}`,
  };
}

for (const part of [training]) seen[part.name] = await part();
answer(seen);
