// The parts of bundles' pages, as people use them: node page_parts.mjs FOLDER, which has a bundle for
// each kind of model. One browser; each function below is a page.
import { join } from 'node:path';
import { answer, openPage, serve } from './browser.mjs';
import { fields, pictures, writing } from './page_inputs.mjs';
import { context, folder, open, seen, status, text, train } from './page_tools.mjs';

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
  found.held = await page.$$eval('#numbers .held:not([hidden])', all =>
    all.map(one => one.textContent),
  );
  found.lossLabel = await page.getAttribute('#plot', 'aria-label');
  found.legend = await page.isVisible('#legend');
  found.undone = await page.evaluate(checkUndone);
  await page.click('#reset');
  await status(page, 'Starts again');
  found.reset = await text(page, 'step');
  await page.evaluate(() => globalThis.wgccPage.use(null));
  found.isOff = await page.isDisabled('#start');
  found.why = await text(page, 'trains-on');
  await page.close();
  return found;
}
/** A screen with two pixels for each of the page: the heights of the curve before and after steps. */
async function sharp() {
  const page = await open('iris');
  await page.evaluate(() => Object.defineProperty(globalThis, 'devicePixelRatio', { value: 2 }));
  const heights = [];
  for (const width of [1280, 1000]) {
    await page.setViewportSize({ width, height: 900 });
    await train(page, 6);
    heights.push(await page.$eval('#plot', ({ clientHeight, height }) => [clientHeight, height]));
  }
  await page.close();
  return heights;
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

const saveNames = page =>
  page.$$eval('#saves li', all => all.map(one => one.firstChild.textContent).sort());
const restored = async (page, name) => {
  await page.evaluate(() => document.getElementById('status').replaceChildren());
  await page.click(`[aria-label="Restore ${name}"]`);
  await status(page, 'Restored');
  return text(page, 'step');
};
async function saveUnder(page, name) {
  await page.fill('#save-name', name);
  await page.click('#save');
}

/** Saves by name in two tabs, the autosave, and a question when leaving. */
async function saving() {
  const page = await open('iris');
  await train(page, 5);
  await saveUnder(page, 'five');
  await status(page, 'Saved');
  await train(page, 3);
  await page.waitForSelector('#saves li:has-text("step 8")');
  const found = { first: await saveNames(page) };
  const other = await open('iris');
  found.other = await saveNames(other);
  found.byHand = await restored(other, 'five');
  found.auto = await restored(other, 'Autosave');
  await saveUnder(other, 'five');
  await other.click('dialog button:text-is("Keep it")');
  found.kept = await restored(other, 'five');
  await saveUnder(other, 'six');
  await status(other, 'Saved');
  await other.click('[aria-label="Delete five"]');
  await other.waitForSelector('[aria-label="Delete five"]', { state: 'detached' });
  found.last = await saveNames(other);
  // Another model has other saves.
  const digits = await open('digits');
  found.digits = await saveNames(digits);
  await digits.close();
  await page.fill('#target', '100000');
  await page.click('#start');
  await page.waitForFunction(() => Number(document.getElementById('step').textContent) > 10);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.waitForSelector('#saves li:has-text("Autosave"):not(:has-text("step 8,"))');
  found.asked = await askedOnLeaving(page);
  await other.close();
  return found;
}
async function askedOnLeaving(page) {
  const asking = new Promise(done => page.once('dialog', dialog => done(dialog)));
  page.close({ runBeforeUnload: true });
  const dialog = await asking;
  const kind = dialog.type();
  await dialog.accept();
  return kind;
}

/** A link with the page's settings. */
async function sharing() {
  const page = await open('iris');
  await page.fill('#seed', '5');
  await page.fill('#target', '7');
  await page.selectOption('#target-unit', 'epochs');
  await page.selectOption('#speed-limit', '30');
  await page.click('#share');
  await status(page, 'link');
  const found = { hash: new URL(page.url()).hash };
  const other = await open('iris', found.hash);
  await other.waitForFunction(() => document.getElementById('target').value === '7');
  found.fields = await other.$$eval('#seed, #target, #target-unit, #speed-limit', all =>
    all.map(one => one.value),
  );
  const weights = tab =>
    tab.evaluate(async () => `${(await globalThis.wgccPage.model.params())['l1.w']}`);
  await page.click('#reset');
  await status(page, 'seed 5');
  found.isSeeded = (await weights(page)) === (await weights(other));
  await page.close();
  await other.close();
  return found;
}

/** The page with its weights, in a file of its own. */
async function exporting() {
  const page = await open('iris');
  await train(page, 20);
  await page.evaluate(() => {
    const x = { kind: 'columns', columns: ['a', 'b', 'c', 'd'] };
    Object.assign(x, { mean: [5, 3, 4, 1], deviation: [1, 2, 2, 0.5] });
    const species = { kind: 'classes', columns: ['kind'], classes: ['u', 'v', 'w'] };
    globalThis.wgccPage.model.preparation = {
      version: 1,
      inputs: { x, species },
      target: 'species',
    };
  });
  const downloading = page.waitForEvent('download');
  await page.click('#export');
  await (await downloading).saveAs(join(folder, 'exported', 'index.html'));
  const predicted = tab =>
    tab.evaluate(async () => {
      const { probs } = await globalThis.wgccPage.model.predict({ x: [0.1, 0.2, 0.3, 0.4] });
      return Array.from(probs);
    });
  const found = { before: await predicted(page) };
  const other = await open('exported');
  found.after = await predicted(other);
  found.step = await text(other, 'step');
  found.labels = await other.$$eval('#inputs label', all => all.map(one => one.textContent));
  found.bars = await other.$$eval('.bars .bar', all => all.map(one => one.children[0].textContent));
  found.isOff = await other.isDisabled('#start');
  await other.click('#reset');
  await status(other, 'Starts again');
  found.reset = await predicted(other);
  await page.close();
  await other.close();
  return found;
}

/** Every control is reached by the keyboard, is named, and shows that it has the focus. */
async function keyboard() {
  const page = await open('digits');
  await page.click('#kernels > summary');
  await page.evaluate(() => document.activeElement.blur());
  const all = await page.evaluate(() => {
    const kinds = 'button, input, select, textarea, summary, [tabindex="0"]';
    const isThere = one => one.checkVisibility() && !one.disabled;
    const found = [...document.querySelectorAll(kinds)].filter(isThere);
    for (const [i, one] of found.entries()) one.dataset.control = i;
    const nameOf = one =>
      one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent;
    return { count: found.length, nameless: found.filter(one => !nameOf(one)).map(one => one.id) };
  });
  const reached = new Set();
  const unseen = [];
  for (let i = 0; i < all.count + 5; i++) {
    await page.keyboard.press('Tab');
    const focus = await page.evaluate(() => {
      const one = document.activeElement;
      const shown = one.type === 'file' ? one.parentElement : one;
      const isSeen = getComputedStyle(shown).outlineStyle !== 'none';
      return { control: one.dataset.control, isSeen, id: one.id };
    });
    if (focus.control !== undefined) reached.add(focus.control);
    if (focus.control !== undefined && !focus.isSeen) unseen.push(focus.id);
  }
  const missed = await page.evaluate(
    reached =>
      [...document.querySelectorAll('[data-control]')]
        .filter(one => !reached.includes(one.dataset.control))
        .map(one => one.outerHTML.slice(0, 80)),
    [...reached],
  );
  await page.focus('#start');
  await page.fill('#target', '2');
  await page.focus('#start');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.getElementById('step').textContent === '2');
  await page.close();
  return { ...all, missed, unseen };
}

/** Models that only predict, or only train. */
async function bare() {
  const visible = page =>
    page.$$eval('section.card', all => all.filter(one => !one.hidden).map(one => one.id));
  const predicting = await open('only_predict');
  const found = { predicting: await visible(predicting) };
  await predicting.fill('#inputs input[type=number]', '21');
  await predicting.waitForSelector('.answer:text-is("y = 42")');
  await predicting.close();
  const page = await open('only_train');
  found.training = await visible(page);
  await train(page, 5);
  found.step = await text(page, 'step');
  await page.close();
  return found;
}

const POLICY =
  "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; worker-src 'self' blob:";
/** served.html under a strict policy, on the GPU and as WebAssembly. */
async function served() {
  const found = {};
  for (const name of ['iris', 'twin']) {
    const server = await serve({ '/': join(folder, name) }, { 'content-security-policy': POLICY });
    const { page, problems } = await openPage(context);
    await page.goto(`${server.url}/served.html`);
    await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
    await train(page, 20);
    // A style that a script sets is allowed.
    await page.waitForFunction(
      () => document.querySelector('.bars .best i')?.getBoundingClientRect().width > 10,
    );
    const downloading = page.waitForEvent('download');
    await page.click('#export');
    await (await downloading).saveAs(join(folder, `${name}-served`, 'index.html'));
    const other = await open(`${name}-served`);
    found[name] = {
      problems,
      step: await text(page, 'step'),
      status: await page.evaluate(() => globalThis.wgccPage.model.adapter.kind),
      exported: await text(other, 'step'),
      loading: await page.evaluate(() =>
        globalThis.said.filter(one => /^Loading weights/.test(one)),
      ),
    };
    await page.close();
    await other.close();
    server.close();
  }
  return found;
}

for (const part of [
  // First: no page has trained digits yet, so that it has no autosave.
  saving,
  bare,
  keyboard,
  served,
  sharing,
  exporting,
  training,
  sharp,
  fields,
  pictures,
  writing,
])
  seen[part.name] = await part();
answer(seen);
