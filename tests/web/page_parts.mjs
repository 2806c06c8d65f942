// The parts of bundles' pages, as people use them: node page_parts.mjs FOLDER, which has a bundle for
// each kind of model. One browser; each function below is a page.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, FLAGS, launch, openPage, serve } from './browser.mjs';

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
  await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
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
  found.held = await page.$$eval('#numbers .held:not([hidden])', all =>
    all.map(one => one.textContent),
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

/** Sliders with names of columns, classes with names, many rows. */
async function fields() {
  const page = await open('iris');
  await page.evaluate(async () => {
    const { model, announce } = globalThis.wgccPage;
    const columns = ['sepal length', 'sepal width', 'petal length', 'petal width'];
    const classes = ['setosa', 'versicolor', 'virginica'];
    const inputs = { x: { kind: 'columns', columns }, species: { kind: 'classes', classes } };
    model.preparation = { version: 1, inputs, target: 'species' };
    await announce('values');
  });
  const found = { takes: await text(page, 'takes') };
  found.labels = await page.$$eval('#inputs label', all => all.map(one => one.textContent));
  const before = await text(page, 'outputs');
  await page.focus('#inputs input[type=range]');
  for (let i = 0; i < 40; i++) await page.keyboard.press('ArrowRight');
  await page.waitForFunction(
    before => document.getElementById('outputs').textContent !== before,
    before,
  );
  found.field = await page.inputValue('#inputs input[type=number]');
  found.slider = await page.inputValue('#inputs input[type=range]');
  found.bars = await page.$$eval('.bars .bar', all => all.map(one => one.children[0].textContent));
  found.answer = await page.textContent('.answer');
  await page.click('#many summary');
  await page.fill('#many-text', '5.1, 3.5, 1.4, 0.2\n6.3\t3.3\t6\t2.5\n');
  await page.click('#many-run');
  await page.waitForSelector('#many-table table');
  found.table = await page.$$eval('#many-table tr', all => all.map(one => one.children.length));
  await page.fill('#many-text', '5.1, 3.5, 1.4, abc');
  await page.click('#many-run');
  await page.waitForFunction(() => /abc/.test(document.getElementById('status').textContent));
  found.refused = await text(page, 'status');
  await page.close();
  return found;
}

const inkOf = page =>
  page.$eval('.seen', canvas =>
    canvas
      .getContext('2d')
      .getImageData(0, 0, canvas.width, canvas.height)
      .data.filter((_, i) => i % 4 === 0)
      .join(),
  );
const changes = (page, before) =>
  page.waitForFunction(
    before => {
      const canvas = document.querySelector('.seen');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((_, i) => i % 4 === 0).join() !== before;
    },
    before,
    { timeout: 20000 },
  );
/** After an act: what the model sees has changed. */
async function seenAfter(page, act) {
  const before = await inkOf(page);
  await act();
  await changes(page, before);
  return inkOf(page);
}

/** Drawn by pointer and keyboard, from a file, the clipboard and the camera. */
async function pictures() {
  const page = await open('digits');
  const found = { takes: await text(page, 'takes') };
  found.clear = await seenAfter(page, () => page.click('#picture-clear'));
  const { x, y, width, height } = await page.locator('.surface').boundingBox();
  found.drawn = await seenAfter(page, async () => {
    await page.mouse.move(x + width / 2, y + height / 8);
    await page.mouse.down();
    await page.mouse.move(x + width / 2, y + (7 * height) / 8, { steps: 5 });
    await page.mouse.up();
  });
  await page.click('#picture-clear');
  await page.focus('.surface');
  found.typed = await seenAfter(page, async () => {
    for (const key of [' ', 'ArrowRight', 'ArrowRight', 'ArrowDown'])
      await page.keyboard.press(key);
  });
  const png = await page.evaluate(halfBlack);
  const buffer = Buffer.from(png, 'base64');
  found.file = await seenAfter(page, () =>
    page.setInputFiles('#picture-file', { name: 'half.png', mimeType: 'image/png', buffer }),
  );
  await page.click('#picture-clear');
  found.pasted = await seenAfter(page, () => page.evaluate(pastePicture, png));
  found.inverted = await seenAfter(page, () => page.check('#picture-invert'));
  await page.uncheck('#picture-invert');
  found.filmed = await seenAfter(page, () => page.click('#picture-camera'));
  await page.click('#picture-camera');
  await page.waitForSelector('#picture-camera:text-is("Camera")');
  const half = name => ({ name, mimeType: 'image/png', buffer });
  await page.setInputFiles('#picture-file', [half('one.png'), half('two.png')]);
  await page.waitForSelector('#pictures-table tr:nth-child(2)');
  found.several = await page.$$eval('#pictures-table td', all => all.map(one => one.textContent));
  const text2 = Buffer.from('no picture');
  await page.setInputFiles('#picture-file', {
    name: 'a.png',
    mimeType: 'image/png',
    buffer: text2,
  });
  await page.waitForFunction(() => /a.png/.test(document.getElementById('status').textContent));
  found.answer = await page.textContent('.answer');
  await page.close();
  return found;
}
/** In a page: a picture whose left half is black. */
async function halfBlack() {
  const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 64 });
  const context = canvas.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, 64, 64);
  context.fillStyle = '#000';
  context.fillRect(0, 0, 32, 64);
  return canvas.toDataURL('image/png').split(',')[1];
}
async function pastePicture(png) {
  const bytes = Uint8Array.from(atob(png), letter => letter.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], 'half.png', { type: 'image/png' }));
  document.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
}

/** Text that streams; characters that the model does not know are said. */
async function writing() {
  const page = await open('chargpt');
  const written = count =>
    page.waitForFunction(
      count => document.getElementById('written').textContent.length > count,
      count,
      { timeout: 120000 },
    );
  await written(8);
  const found = { button: await text(page, 'write') };
  await page.click('#write');
  await page.fill('#prompt', 'Où é');
  found.warning = await text(page, 'prompt-warning');
  await page.fill('#prompt', 'Now ');
  found.noWarning = await text(page, 'prompt-warning');
  await page.click('#write');
  await written(20);
  found.text = await text(page, 'written');
  await page.click('#write');
  found.entries = await page.$$eval('#entry option', all => all.map(one => one.value));
  await page.close();
  return found;
}

const status = (page, pattern) =>
  page.waitForFunction(
    pattern => new RegExp(pattern).test(document.getElementById('status').textContent),
    pattern,
  );
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
    };
    await page.close();
    await other.close();
    server.close();
  }
  return found;
}

for (const part of [
  keyboard,
  served,
  saving,
  sharing,
  exporting,
  training,
  fields,
  pictures,
  writing,
])
  seen[part.name] = await part();
answer(seen);
