// What a person does with the card of the data, in pages opened from disk:
//   node data_panel.mjs PAGES CASES SCREENSHOTS    with JSON in: which files, and what to look at
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const [pages, cases, screenshots] = process.argv.slice(2);
const { tables, large } = JSON.parse(readFileSync(0, 'utf8'));
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 1000 } });
const { page, problems } = await openPage(context);
const seen = { tables: {} };
const text = id => page.textContent(`#${id}`);
const isVisible = id => page.isVisible(`#${id}`);
const shot = name => page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });

async function open(name) {
  await page.goto(pathToFileURL(join(pages, name, 'index.html')).href);
  await page.waitForFunction(() => document.getElementById('rows').textContent, null, {
    timeout: 120000,
  });
}

/** Chooses files, and waits until they are read or refused. */
async function choose(...files) {
  await page.evaluate(() => {
    document.getElementById('rows').textContent = '';
  });
  await page.setInputFiles('#file', files);
  await settled();
}
const settled = () =>
  page.waitForFunction(
    () => {
      const $ = id => document.getElementById(id);
      const isDone =
        !$('start').disabled || !$('data-problem').hidden || !$('data-question').hidden;
      return $('rows').textContent && isDone;
    },
    null,
    { timeout: 60000 },
  );
const file = (name, content) => ({
  name,
  mimeType: 'text/plain',
  buffer: Buffer.from(content),
});

/** What the card of the data says. */
const card = () =>
  page.evaluate(() => {
    const $ = id => document.getElementById(id);
    const shown = id => ($(id).hidden ? null : $(id).textContent);
    return {
      rows: $('rows').textContent,
      problem: shown('data-problem'),
      question: shown('data-question'),
      notes: Array.from($('data-notes').children, item => item.textContent),
      uses: Array.from($('preview').querySelectorAll('select'), select => select.value),
      header: Array.from($('preview').querySelectorAll('th'), cell => cell.firstChild.textContent),
      cells: Array.from($('preview').querySelectorAll('tbody tr'), row =>
        Array.from(row.children, cell => cell.textContent),
      ),
      canTrain: !$('start').disabled,
      isScaled: $('scale').checked,
      missing: !$('missing-choice').hidden,
    };
  });

async function trainSome() {
  await page.fill('#target', '40');
  await page.click('#start');
  await page.waitForFunction(
    () => Number(document.getElementById('step').textContent) >= 40,
    null,
    {
      timeout: 60000,
    },
  );
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
}

/** In a page: the mean of the rows to train with, and the loss of the others, shown and computed. */
async function measureHeld() {
  const { data, model } = globalThis.wgccPage;
  const [x, y] = [data.train.arrays.x, data.train.arrays.y];
  const mean = y.reduce((sum, value) => sum + value, 0) / y.length;
  const { heldOut } = data;
  const losses = [];
  for (let row = 0; row + 2 <= heldOut.y.length; row += 2) {
    const part = {
      x: heldOut.x.subarray(3 * row, 3 * row + 6),
      y: heldOut.y.subarray(row, row + 2),
    };
    losses.push((await model.callPrepared('eval', part)).loss[0]);
  }
  return {
    rows: x.length / 3,
    mean,
    isKept: JSON.stringify(model.preparation) === JSON.stringify(data.train.preparation),
    shown: Number(document.getElementById('loss-held-out').textContent),
    losses,
  };
}

/** Predictions come after all else. */
const predicted = () => page.waitForSelector('#outputs .bar', { timeout: 60000 });

// at first, data is invented
await open('class3');
seen.first = await card();

// every table of the shared cases
for (const { source, model } of tables) {
  if (!page.url().includes(`/${model}/`)) await open(model);
  await choose(join(cases, source));
  seen.tables[source] = await card();
}

// questions, choices, refusals
await open('class3');
await choose(file('numbers.csv', 'a;b;label\n1,234;0;u\n2,500;1;v\n1,000;1;w\n'));
seen.decimal = await card();
await page.click('text=decimal comma');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.decided = await card();
await choose(join(cases, 'which_target.csv'));
seen.asked = await card();
await page.selectOption('#preview th:nth-child(3) select', 'y');
await page.waitForFunction(() => !/Reading/.test(document.getElementById('rows').textContent));
seen.chosen = await card();
await shot('data-refused');
await choose(
  file('flowers.csv', `a,b,kind,label\n${'60.5,2,p,u\n70,1,q,v\n80,,p,w\n90,3,q,u\n'.repeat(5)}`),
);
seen.many = await card();
await page.selectOption('#preview th:nth-child(3) select', '');
await settled();
seen.fewer = await card();
await choose(file('flowers.csv', `a,b,label\n${'60.5,2,u\n70,1,v\n80,,w\n90,3,u\n'.repeat(5)}`));
seen.scaled = await card();
await page.selectOption('#preview th:nth-child(3) select', 'x');
await settled();
seen.wrongUse = await card();
await page.selectOption('#preview th:nth-child(1) select', 'y');
await settled();
seen.swapped = await card();
await choose(file('flowers.csv', `a,b,label\n${'60.5,2,u\n70,1,v\n80,,w\n90,3,u\n'.repeat(5)}`));
await page.uncheck('#scale');
await settled();
seen.unscaled = await card();
await page.check('#scale');
await settled();
await page.selectOption('#missing', 'mean');
await settled();
seen.filled = await card();
await page.fill('#held-out', '50');
await page.waitForFunction(() => /10 rows held/.test(document.getElementById('rows').textContent));
await shot('data-light');

// trains on it; new data asks
await trainSome();
await choose(file('more.csv', `a,b,label\n${'60.5,2,u\n70,1,v\n80,1,u\n90,3,u\n'.repeat(5)}`));
seen.question = {
  ...(await card()),
  step: Number(await text('step')),
  why: await text('trains-on'),
};
await shot('data-question');
await page.click('text=Go on learning');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.continued = { ...(await card()), step: Number(await text('step')) };
await predicted();
seen.classes = await page.textContent('#try');
// opened again, the model still knows its data, which invented data is not
const downloading = page.waitForEvent('download');
await page.click('#download');
const weights = join(screenshots, 'weights.safetensors');
await (await downloading).saveAs(weights);
await open('class3');
await page.setInputFiles('#open', weights);
await page.waitForFunction(() => /other data/.test(document.getElementById('rows').textContent));
await predicted();
seen.reopened = { ...(await card()), classes: await page.textContent('#try') };
await choose(file('strange.csv', `a,c,label\n${'1,2,u\n2,1,v\n'.repeat(5)}`));
await page.click('text=Go on learning');
await page.waitForSelector('#data-problem:not([hidden])');
await page.waitForSelector('#data-question:not([hidden])');
seen.otherColumns = await card();
await page.click('text=Start anew');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.anew = { ...(await card()), step: Number(await text('step')) };
await page.click('#generate');
await page.waitForFunction(() => /made-up/.test(document.getElementById('rows').textContent));
seen.again = await card();
// Start again answers the question, too; so does leaving the rows that are held out as they are
await trainSome();
await choose(file('other.csv', `a,b,label\n${'1,2,u\n2,1,v\n0,0,w\n'.repeat(5)}`));
await page.click('#reset');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.restarted = { ...(await card()), step: Number(await text('step')) };
await trainSome();
const share = await text('held-out-share');
await page.fill('#held-out', '10');
await page.click('text=Leave the rows');
seen.left = { ...(await card()), isSame: (await text('held-out-share')) === share };
// a model that was restored without its data can start again, with invented data
await open('class3');
await page.setInputFiles('#open', weights);
await page.waitForFunction(() => /other data/.test(document.getElementById('rows').textContent));
await page.click('#reset');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.forgotten = { ...(await card()), step: Number(await text('step')) };

// a large file does not block the page
await page.evaluate(() => {
  const slider = document.getElementById('held-out');
  slider.value = 20;
});
await startTracing(browser, page);
await choose(large);
await page.waitForFunction(() => /held out/.test(document.getElementById('rows').textContent));
seen.large = { ...(await card()), longest: longestTask(await browser.stopTracing()) };

// arrays, pictures and text
await choose(join(pages, 'arrays.npz'));
seen.arrays = await card();
await open('pictures');
await page.setInputFiles('#folder', join(cases, 'picture_folders'));
await page.waitForFunction(() =>
  /picture_folders/.test(document.getElementById('rows').textContent),
);
await settled();
seen.pictures = {
  ...(await card()),
  shown: await page.locator('#preview canvas').count(),
  names: await page.locator('#preview figcaption').allTextContents(),
};
await shot('data-pictures');
await open('letters');
await choose(join(cases, 'unknown_letter.txt'));
seen.unknown = await card();
await page.click('text=Leave them out');
await page.waitForFunction(() => !document.getElementById('start').disabled);
seen.letters = await card();

const wide = Buffer.from(`\ufeff${'abc cab\nab ca bc\n'.repeat(4)}`, 'utf16le');
await choose({ name: 'wide.txt', mimeType: 'text/plain', buffer: wide });
seen.wide = (await text('preview')).slice(0, 8);

// rows that are held out: scaling knows nothing of them, and all are measured
await open('price');
const prices = Array.from({ length: 22 }, (_, i) => `${i},${(i * i) % 7},${i % 3},${100 + 5 * i}`);
await choose(file('prices.csv', ['a,b,c,price', ...prices].join('\n')));
await trainSome();
seen.held = await page.evaluate(measureHeld);

// a file that is dropped, and the data that a page was built with
await open('class3');
await page.evaluate(() => {
  const transfer = new DataTransfer();
  transfer.items.add(new File(['a,b,label\n1,2,u\n2,1,v\n0,0,w\n'], 'dropped.csv'));
  const event = new DragEvent('drop', { dataTransfer: transfer, cancelable: true, bubbles: true });
  document.getElementById('drop').dispatchEvent(event);
});
await page.waitForFunction(() => /to learn from/.test(document.getElementById('rows').textContent));
seen.dropped = await card();
await open('built');
seen.built = await card();
await page.click('#generate');
await page.waitForFunction(() => /made-up/.test(document.getElementById('rows').textContent));
await page.click('#built');
await page.waitForFunction(() => /to learn from/.test(document.getElementById('rows').textContent));
seen.builtAgain = await card();

// dark, and on a phone
await open('class3');
await page.emulateMedia({ colorScheme: 'dark' });
await choose(join(cases, 'odd_cell.csv'));
await shot('data-dark');
await page.setViewportSize({ width: 390, height: 844 });
await choose(join(cases, 'labels_from_1.csv'));
await shot('data-phone');
seen.isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
seen.reached = await page.evaluate(() => {
  const ids = ['choose', 'choose-folder', 'generate', 'scale', 'held-out'];
  return ids.filter(id => document.getElementById(id).tabIndex === 0);
});
seen.visible = { options: await isVisible('data-options') };
seen.problems = problems;
answer(seen);
