// What a visitor can lose in a bundle's page, and does not: node page_losses.mjs FOLDER. The GPU is
// lost, the browser keeps nothing, the page is left or saved as a file.
import { join } from 'node:path';
import { answer } from './browser.mjs';
import { context, folder, open, seen, status, text, train } from './page_tools.mjs';

const lose = page => page.evaluate(() => globalThis.wgccPage.model.device.destroy());
const stepOf = async page => Number(await text(page, 'step'));
const waitForStep = (page, step) =>
  page.waitForFunction(step => Number(document.getElementById('step').textContent) >= step, step, {
    timeout: 120000,
  });
/** What the card of the training says about the loss, once it says it. */
async function words(page, pattern = 'is back') {
  await page.waitForFunction(
    pattern => new RegExp(pattern).test(document.getElementById('recovered').textContent),
    pattern,
    { timeout: 60000 },
  );
  return text(page, 'recovered');
}
const stopped = page =>
  page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
/** The loss of the held-out rows, and what is predicted. */
const values = page =>
  page.evaluate(async () => {
    const { model } = globalThis.wgccPage;
    return JSON.stringify(await model.params());
  });

/** Lost after a training, twice, and while it is saved. */
async function finished() {
  const page = await open('iris');
  await train(page, 60);
  const before = await values(page);
  const found = { words: [], steps: [], isSame: [] };
  const look = async () => {
    found.words.push(await words(page));
    found.steps.push(await stepOf(page));
    found.isSame.push((await values(page)) === before);
    await page.evaluate(() => document.getElementById('recovered').replaceChildren());
  };
  await lose(page);
  await look();
  await lose(page);
  await look();
  await page.evaluate(() => {
    document.getElementById('save').click();
    globalThis.wgccPage.model.device.destroy();
  });
  await look();
  await page.fill('#save-name', 'after');
  await page.click('#save');
  await page.waitForSelector('#saves li:has-text("after"):has-text("step 60")');
  await train(page, 5);
  found.on = await stepOf(page);
  await page.click('[aria-label="Restore after"]');
  await status(page, 'Restored');
  await lose(page);
  await look();
  await page.close();
  return found;
}

/** The worker of a page that runs as WebAssembly fails. */
async function failedWorker() {
  const page = await open('twin');
  await train(page, 30);
  const before = await values(page);
  await page.evaluate(() => {
    for (const worker of globalThis.workers)
      worker.dispatchEvent(new ErrorEvent('error', { message: 'no memory' }));
  });
  const found = { said: await words(page), isSame: (await values(page)) === before };
  await train(page, 5);
  found.on = await stepOf(page);
  await page.close();
  return found;
}
await context.addInitScript(() => {
  globalThis.workers = [];
  const Own = globalThis.Worker;
  globalThis.Worker = class extends Own {
    constructor(...given) {
      super(...given);
      globalThis.workers.push(this);
    }
  };
});

/** Lost while it trains: it goes on to its target; with a model that measures by undone steps, too. */
async function underWay(name) {
  const page = await open(name);
  await page.fill('#target', '400');
  await page.selectOption('#speed-limit', '30');
  await page.click('#start');
  await waitForStep(page, 10);
  await page.evaluate(() => globalThis.wgccPage.model.snapshot());
  const kept = await stepOf(page);
  await lose(page);
  const said = await words(page);
  await waitForStep(page, kept + 5);
  await page.selectOption('#speed-limit', 'full');
  await page.click('#start');
  await stopped(page);
  const found = { said, isOn: (await stepOf(page)) > kept };
  await page.close();
  return found;
}

/** A timer saves while the model trains; what is not saved is asked about. */
async function autosaving() {
  const page = await open('iris');
  await page.evaluate(() => {
    globalThis.wgccPage.saves.every = 1;
  });
  await page.fill('#target', '1000000');
  await page.click('#start');
  await page.waitForSelector('#saves li:has-text("Autosave")');
  const isTraining = (await text(page, 'start')) === 'Stop';
  const asked = [await isAsked(page)];
  await page.click('#start');
  await stopped(page);
  await page.waitForFunction(() => !globalThis.wgccPage.saves.hasUnsaved);
  asked.push(await isAsked(page));
  const found = { isTraining, asked };
  await page.close();
  return found;
}
/** In a page: whether the browser would ask before it is left. */
const isAsked = page =>
  page.evaluate(() => {
    const event = new Event('beforeunload', { cancelable: true });
    window.dispatchEvent(event);
    return event.defaultPrevented;
  });

/** A browser that has no room, and one that keeps nothing. */
async function withoutStorage() {
  const found = {};
  const full = await open('iris');
  await full.evaluate(() => {
    IDBObjectStore.prototype.put = () => {
      throw new DOMException('The quota has been exceeded.', 'QuotaExceededError');
    };
  });
  await train(full, 5);
  await full.waitForSelector('#save-problem:not(:empty)');
  found.full = { shown: await text(full, 'save-problem'), asked: await isAsked(full) };
  await full.fill('#save-name', 'full');
  await full.click('#save');
  await status(full, 'room');
  found.full.said = await text(full, 'status');
  await full.close();
  await context.addInitScript(() => {
    if (location.hash === '#nothing')
      Object.defineProperty(window, 'indexedDB', { value: undefined });
  });
  const none = await open('iris', '#nothing');
  found.none = [await text(none, 'save-problem'), await text(none, 'status')];
  await train(none, 5);
  await none.waitForSelector('#save-problem:has-text("not saved")');
  found.none.push(await text(none, 'save-problem'));
  const downloading = none.waitForEvent('download');
  await none.click('#download');
  await downloading;
  found.none.push(await isAsked(none));
  await none.close();
  return found;
}

/** The trained page as a file, whatever its texts are; also of a page that was one before. */
async function exporting() {
  const found = [];
  let name = 'confusing';
  for (const steps of [20, 10]) {
    const page = await open(name);
    await train(page, steps);
    const before = await values(page);
    const downloading = page.waitForEvent('download');
    await page.click('#export');
    name = `confusing-${steps}`;
    await (await downloading).saveAs(join(folder, name, 'index.html'));
    const other = await open(name);
    const isSame = (await values(other)) === before;
    found.push({ step: await stepOf(other), isSame, title: await other.title() });
    await page.close();
    await other.close();
  }
  return found;
}

/** A page whose slot is missing says so, and downloads nothing. */
async function unexportable() {
  const page = await open('slotless');
  await train(page, 3);
  let downloads = 0;
  page.on('download', () => downloads++);
  await page.click('#export');
  await status(page, 'could not');
  const found = { said: await text(page, 'status'), downloads };
  await page.close();
  return found;
}

/** Text is written anew while the model learns. */
async function writing() {
  const page = await open('chargpt');
  await page.fill('#target', '100000');
  await page.click('#start');
  await page.evaluate(() => {
    const box = document.getElementById('written');
    globalThis.begun = 0;
    new MutationObserver(changes => {
      const isTraining = document.getElementById('start').textContent === 'Stop';
      if (isTraining && changes.some(({ addedNodes }) => addedNodes[0]?.tagName === 'B'))
        globalThis.begun++;
    }).observe(box, { childList: true });
  });
  await page.waitForFunction(
    () => globalThis.begun >= 2 && document.getElementById('written').textContent.length > 20,
    null,
    { timeout: 120000 },
  );
  const isTraining = (await text(page, 'start')) === 'Stop';
  await page.click('#start');
  await stopped(page);
  await page.close();
  return isTraining;
}

seen.finished = await finished();
seen.underWay = { iris: await underWay('iris'), only_train: await underWay('only_train') };
for (const part of [failedWorker, autosaving, withoutStorage, exporting, unexportable, writing])
  seen[part.name] = await part();
answer(seen);
