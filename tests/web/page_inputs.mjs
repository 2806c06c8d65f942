// Inputs of bundles' pages: fields, pictures, text.
import { open, text, watchCalls } from './page_tools.mjs';

/** Sliders with names of columns, classes with names, many rows. */
export async function fields() {
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
  found.tooltips = await page.$$eval('#inputs label', all => all.map(one => one.title));
  found.cut = await page.$$eval('#inputs input[type=number]', all =>
    all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.value),
  );
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
  found.table = await manyRows(page, '5.1, 3.5, 1.4, 0.2\n6.3, 3.3, 6, 2.5\n');
  found.commas = await manyRows(page, '5,1;3,5;1,4;0,2\n6,3;3,3;6;2,5\n');
  const names = 'petal width\tpetal length\tsepal width\tnote\tsepal length';
  found.header = await manyRows(page, `${names}\n0.2\t1.4\t3.5\tx\t5.1\n`);
  await page.fill('#many-text', '5.1, 3.5, 1.4, abc');
  await page.click('#many-run');
  await page.waitForFunction(() => /abc/.test(document.getElementById('status').textContent));
  found.refused = await text(page, 'status');
  found.isAsked = [await page.isVisible('#many-decimal')];
  await page.fill('#many-text', '5,100;3,500;1,400;2,200');
  await page.click('#many-run');
  await page.waitForSelector('#many-decimal');
  found.isAsked.push(await page.isVisible('#many-decimal'));
  found.unsure = await text(page, 'status');
  await page.evaluate(() => document.getElementById('many-table').replaceChildren());
  await page.selectOption('#many-decimal', ',');
  await page.waitForSelector('#many-table table');
  found.decided = await tableCells(page);
  found.oneHot = await oneHot(page);
  await page.close();
  return found;
}

async function manyRows(page, rows) {
  await page.evaluate(() => document.getElementById('many-table').replaceChildren());
  await page.fill('#many-text', rows);
  await page.click('#many-run');
  await page.waitForSelector('#many-table table');
  return tableCells(page);
}
/** The rows under the header, without what was predicted. */
const tableCells = page =>
  page.$$eval('#many-table tbody tr', all =>
    all.map(row => Array.from(row.querySelectorAll('td:not(.result)'), cell => cell.textContent)),
  );

/** An input that is one of four names: a list, and what the model is called with. */
async function oneHot(page) {
  await watchCalls(page);
  await page.evaluate(async () => {
    const { model, announce } = globalThis.wgccPage;
    const x = { kind: 'one hot', columns: ['shape'], classes: ['a', 'b', 'c', 'd'] };
    model.preparation = { version: 1, inputs: { x }, target: 'species' };
    await announce('values');
  });
  const list = page.locator('#inputs select');
  const found = {
    takes: await text(page, 'takes'),
    count: await page.locator('#inputs input, #inputs select').count(),
    names: await list.locator('option').allTextContents(),
  };
  await list.selectOption('c');
  await page.waitForFunction(() => globalThis.called?.x[2] === 1);
  found.row = await page.evaluate(() => Array.from(globalThis.called.x));
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
export async function pictures() {
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
  await watchCalls(page);
  const png = await page.evaluate(halfBlack);
  const buffer = Buffer.from(png, 'base64');
  found.file = await seenAfter(page, () =>
    page.setInputFiles('#picture-file', { name: 'half.png', mimeType: 'image/png', buffer }),
  );
  found.same = await page.evaluate(sameAsRead, png);
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
/** In a page: whether the model was called with what `readData` reads from the file. */
async function sameAsRead(png) {
  const { model } = globalThis.wgccPage;
  const bytes = Uint8Array.from(atob(png), letter => letter.charCodeAt(0));
  const file = new File([bytes], 'half.png');
  const { arrays } = await model.readData(file, { entry: 'predict' });
  const [[key, list]] = Object.entries(arrays);
  const given = globalThis.called[key];
  return [list.length, Array.from(list).every((value, i) => value === given[i])];
}
/** In a page: a picture whose left half is black, not as wide as high, with some grey. */
async function halfBlack() {
  const canvas = Object.assign(document.createElement('canvas'), { width: 70, height: 64 });
  const context = canvas.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, 70, 64);
  context.fillStyle = '#000';
  context.fillRect(0, 0, 35, 64);
  for (let i = 0; i < 9; i++) {
    context.fillStyle = `rgb(${i}, ${2 * i}, 3)`;
    context.fillRect(3 * i, 7 * i, 5, 4);
  }
  return canvas.toDataURL('image/png').split(',')[1];
}
async function pastePicture(png) {
  const bytes = Uint8Array.from(atob(png), letter => letter.charCodeAt(0));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([bytes], 'half.png', { type: 'image/png' }));
  document.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
}

/** Text that streams; characters that the model does not know are said. */
export async function writing() {
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
