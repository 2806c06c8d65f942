// The example pages, used as a person would: node examples.mjs FOLDER, which holds the built pages
// and gets screenshots.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, FLAGS, launch, openPage } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const folder = process.argv[2];
const browser = await launch({
  args: [...FLAGS, '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
});
const open = async (name, options) => {
  const { page, problems } = await openPage(browser, options);
  await page.goto(pathToFileURL(join(folder, `${name}.html`)).href);
  await page.waitForSelector('#work:not([hidden])', { timeout: 120000 });
  await page.evaluate(watchLoss);
  await startTracing(browser, page);
  return {
    page,
    problems,
    number: async id => parseFloat(await page.textContent(`#${id}`)),
    losses: () => page.evaluate(() => globalThis.losses),
    until: (id, value) =>
      page.waitForFunction(
        ([id, value]) => parseFloat(document.getElementById(id).textContent) >= value,
        [id, value],
        {
          timeout: 120000,
        },
      ),
  };
};
/** In the page: every loss that it shows, because training may be faster than whoever looks at it. */
function watchLoss() {
  const shown = document.getElementById('loss');
  globalThis.losses = [];
  const note = () => {
    const loss = parseFloat(shown.textContent);
    if (!Number.isNaN(loss)) globalThis.losses.push(loss);
  };
  if (shown) new MutationObserver(note).observe(shown, { childList: true });
}
/** In the page: whether the browser would ask before it is left. */
const isAsked = page =>
  page.evaluate(() => {
    const event = new Event('beforeunload', { cancelable: true });
    window.dispatchEvent(event);
    return event.defaultPrevented;
  });
const status = (page, pattern) =>
  page.waitForFunction(
    pattern => new RegExp(pattern).test(document.getElementById('status').textContent),
    pattern,
    { timeout: 120000 },
  );
const stroke = async (page, canvas, points) => {
  const box = await (await page.$(canvas)).boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 4 });
  await page.mouse.up();
};
const look = async ({ page, problems }, name) => {
  const longest = longestTask(await browser.stopTracing());
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
  return { problems, longest };
};
const close = async (on, name) => {
  const seen = await look(on, name);
  await on.page.close();
  return seen;
};

async function sin() {
  const on = await open('sin', { viewport: { width: 390, height: 844 } });
  const { page, losses, until } = on;
  const asked = [await isAsked(page)];
  await page.click('#start');
  await until('step', 250);
  const [first, ...later] = await losses();
  const last = later.at(-1);
  await stroke(page, '#curve', [
    [0.3, 0.5],
    [0.5, 0.2],
    [0.7, 0.2],
  ]);
  await page.fill('#noise', '0.3');
  await page.waitForFunction(
    ([count, last]) => globalThis.losses.slice(count).some(loss => loss > last),
    [later.length + 1, last],
  );
  const seen = {
    first,
    last,
    drawn: Math.max(...(await losses()).slice(later.length + 1)),
    noise: await page.textContent('#amount'),
    speed: await page.textContent('#speed'),
    wide: await page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
  };
  await page.click('#start');
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
  await page.click('[data-target=steps]');
  await status(page, 'Another curve');
  asked.push(await isAsked(page));
  return { ...seen, asked, ...(await close(on, 'sin')) };
}

async function digits() {
  const on = await open('digits', { viewport: { width: 820, height: 900 }, colorScheme: 'dark' });
  const { page, number } = on;
  await page.waitForFunction(
    () => /Draw a digit/.test(document.getElementById('status').textContent),
    null,
    {
      timeout: 120000,
    },
  );
  const learned = await number('acc');
  const asked = [await isAsked(page)];
  const best = () => page.textContent('.bar.best span');
  await stroke(page, '#ink', [
    [0.5, 0.15],
    [0.5, 0.5],
    [0.5, 0.85],
  ]);
  await page.waitForSelector('.bar.best');
  const one = await best();
  await page.click('#clear');
  // A drawing that is not a digit, corrected to a 4.
  await stroke(page, '#ink', [
    [0.2, 0.2],
    [0.8, 0.2],
    [0.2, 0.8],
    [0.8, 0.8],
  ]);
  await page.waitForSelector('.bar.best');
  await page.click('#answers button:nth-child(5)');
  await page.waitForSelector('#effect:not([hidden])', { timeout: 60000 });
  const effect = await page.$$eval('#effect tbody td', cells =>
    cells.map(cell => cell.textContent),
  );
  await status(page, 'Learned from 1');
  asked.push(await isAsked(page));
  await page.click('#save');
  await status(page, 'Saved');
  asked.push(await isAsked(page));
  return { learned, one, effect, asked, now: await best(), ...(await close(on, 'digits')) };
}

/** What is drawn for each kind of pictures.html: points of a line. */
const DRAWINGS = [
  '0.2 0.1, 0.2 0.9',
  '0.1 0.5, 0.9 0.5',
  '0.1 0.1, 0.9 0.9, 0.5 0.5, 0.9 0.1, 0.1 0.9',
].map(text => text.split(', ').map(point => point.split(' ').map(Number)));

async function addExamples(page, count) {
  for (const [kind, points] of DRAWINGS.entries())
    for (let i = 0; i < count; i++) {
      const moved = points.map(([x, y]) => [x + i / 50, y]);
      await stroke(page, '#ink', moved);
      await page.click(`#kinds .kind:nth-of-type(${2 * kind + 1}) button`);
    }
}

/** Three kinds are drawn and learned, one is recognised; the camera gives an example, too. */
async function pictures() {
  const on = await open('pictures', { viewport: { width: 1280, height: 800 } });
  const { page, number } = on;
  const isReady = () => page.isEnabled('#start');
  const before = await isReady();
  await addExamples(page, 3);
  await page.fill('#kinds input', 'Bar');
  const ready = [before, await isReady()];
  await page.click('#start');
  await page.waitForFunction(
    () => /Learned in/.test(document.getElementById('status').textContent),
    null,
    {
      timeout: 120000,
    },
  );
  const right = await number('acc');
  await stroke(page, '#ink', DRAWINGS[0]);
  await page.waitForSelector('.bar.best');
  await page.waitForFunction(
    () => document.querySelector('.bar.best span').textContent === 'Bar',
    null,
    { timeout: 20000 },
  );
  await page.click('#camera');
  await page.waitForSelector('#video:not([hidden])');
  await page.click('#kinds .kind:nth-of-type(1) button');
  const examples = await page.locator('#kinds .examples canvas').count();
  await page.click('#camera');
  await stroke(page, '#ink', DRAWINGS[2]);
  const seen = { ready, right, examples, ...(await look(on, 'pictures')) };
  const again = await visitAgain(page);
  await page.close();
  return { ...seen, again };
}

/** The page is opened again: examples and model are there, until they are forgotten. */
async function visitAgain(page) {
  await page.waitForFunction(() => {
    const event = new Event('beforeunload', { cancelable: true });
    window.dispatchEvent(event);
    return !event.defaultPrevented;
  });
  await page.reload();
  await status(page, 'last visit');
  const back = await page.textContent('#status');
  const count = await page.locator('#kinds .examples canvas').count();
  const name = await page.inputValue('#kinds input');
  await stroke(page, '#ink', DRAWINGS[0]);
  await page.waitForSelector('.bar.best:has-text("Bar")');
  await page.click('#reset');
  await status(page, 'without an example');
  await page.waitForFunction(() => document.querySelectorAll('.examples canvas').length === 0);
  await page.reload();
  await status(page, 'Draw something');
  const forgotten = await page.locator('#kinds .examples canvas').count();
  return { back, count, name, forgotten };
}

async function inside() {
  const on = await open('inside', { viewport: { width: 1280, height: 900 } });
  const { page } = on;
  const isLong = count =>
    page.waitForFunction(
      count => document.querySelectorAll('#text button').length >= count,
      count,
      { timeout: 120000 },
    );
  await page.fill('#prompt', 'And Gød said');
  await page.press('#prompt', 'Enter');
  await page.waitForFunction(() =>
    /does not know ø/.test(document.getElementById('message').textContent),
  );
  await isLong(11);
  await page.click('#start');
  await isLong(60);
  await page.click('#start');
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Write');
  await page.click('#heads button:nth-child(3)');
  await page.click('#text button:nth-child(20)');
  const seen = {
    text: await page.textContent('#text'),
    bars: await page.locator('#probs .bar').count(),
    nameless: await page.$$eval(
      '#text button',
      all => all.filter(one => !(one.ariaLabel ?? one.textContent).trim()).length,
    ),
    asked: await isAsked(page),
    shaded: await page.$$eval(
      '#text button',
      all =>
        all
          .map(one => getComputedStyle(one).backgroundColor)
          .filter(colour => /[1-9]\)$/.test(colour)).length,
    ),
    wide: await page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
  };
  return { ...seen, ...(await close(on, 'inside')) };
}

async function playground() {
  const on = await open('playground', {
    viewport: { width: 390, height: 844 },
    colorScheme: 'dark',
  });
  const { page, until, losses, number } = on;
  await page.setInputFiles('#file', {
    name: 'mine.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(
      ['x,y,class', ...Array.from({ length: 30 }, (_, i) => `${i},${(i * i) % 7},${i % 3}`)].join(
        '\n',
      ),
    ),
  });
  await page.waitForFunction(() => /mine\.csv/.test(document.getElementById('status').textContent));
  const csv = await page.textContent('#status');
  await page.click('#empty');
  const empty = [await page.isEnabled('#start'), await page.isVisible('#hint')];
  await page.click('[data-points=spiral]');
  await page.click('#start');
  await until('step', 400);
  const [first, ...later] = await losses();
  const last = later.at(-1);
  const acc = await number('acc');
  const speed = await page.textContent('#speed');
  const wide = await page.evaluate(() => {
    document.getElementById('loss').textContent = '0.00000430';
    return document.documentElement.scrollWidth > innerWidth;
  });
  await page.click('#plane', { position: { x: 20, y: 20 } });
  await page.click('#start');
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
  const asked = await isAsked(page);
  return { csv, empty, first, last, acc, speed, wide, asked, ...(await close(on, 'playground')) };
}

async function chargpt() {
  const on = await open('chargpt', { viewport: { width: 390, height: 844 } });
  const { page, losses, until } = on;
  const text = () => page.textContent('#text');
  const longer = letters =>
    page.waitForFunction(
      letters => document.getElementById('text').textContent.length > letters,
      letters,
      {
        timeout: 120000,
      },
    );
  await longer(40);
  const untrained = await text();
  await page.click('#start');
  await until('step', 5);
  await page.fill('#prompt', 'In thé beginning');
  await until('step', 20);
  const [first, ...later] = await losses();
  const last = later.at(-1);
  await page.waitForFunction(
    () => document.getElementById('text').textContent.startsWith('In th beg'),
    null,
    {
      timeout: 120000,
    },
  );
  await longer(60);
  const seen = {
    untrained,
    first,
    last,
    written: await text(),
    unknown: await page.textContent('#unknown'),
    wide: await page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
  };
  await page.click('#start');
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
  return { ...seen, asked: await isAsked(page), ...(await close(on, 'chargpt')) };
}

/** The GPU is lost after a training: the page says what is left of it, and goes on. */
async function lost() {
  const { page, problems } = await openPage(browser);
  await page.addInitScript(takeForGpu);
  await page.goto(pathToFileURL(join(folder, 'sin.html')).href);
  await page.waitForSelector('#work:not([hidden])', { timeout: 120000 });
  await page.click('#start');
  const isAt = step =>
    page.waitForFunction(step => +document.getElementById('step').textContent >= step, step);
  await isAt(20);
  await page.click('#start');
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
  const step = Number(await page.textContent('#step'));
  await page.evaluate(() => globalThis.devices.at(-1).destroy());
  await status(page, 'is back');
  const said = await page.textContent('#status');
  await page.click('#start');
  await isAt(step + 5);
  const adapter = await page.evaluate(() => globalThis.devices.length);
  await page.close();
  return { step, said, adapter, problems };
}
/** In a page: SwiftShader looks like a GPU, so that the page uses it; devices are in `devices`. */
function takeForGpu() {
  globalThis.devices = [];
  const { requestDevice } = GPUAdapter.prototype;
  const info = { vendor: 'a', architecture: 'b', device: '', description: 'a GPU' };
  Object.defineProperty(GPUAdapter.prototype, 'info', { get: () => info });
  GPUAdapter.prototype.requestDevice = async function (...given) {
    const device = await requestDevice.apply(this, given);
    globalThis.devices.push(device);
    return device;
  };
}

answer({
  lost: await lost(),
  sin: await sin(),
  digits: await digits(),
  playground: await playground(),
  pictures: await pictures(),
  inside: await inside(),
  chargpt: await chargpt(),
});
