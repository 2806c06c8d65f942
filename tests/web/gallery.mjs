// The pages that train while one looks at them, each until it has learned what it should:
// node gallery.mjs FOLDER, which holds the built pages and gets screenshots.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';
import { longestTask, startTracing } from './tasks.mjs';

const folder = process.argv[2];
const browser = await launch();
const PHONE = { viewport: { width: 390, height: 844 } };
const DARK = { viewport: { width: 1100, height: 800 }, colorScheme: 'dark' };
/** Of each page: what it draws on, the number that says what it learned, and how much is enough. */
const PAGES = {
  snake: { canvas: '#boards', number: 'won', enough: 5, options: PHONE },
  cartpole: { canvas: '#carts', number: 'length', enough: 400, options: DARK },
  siren: { canvas: '#painted', number: 'likeness', enough: 24, options: PHONE },
  diffusion: { canvas: '#made', number: 'read', enough: 80, options: DARK },
  plane: { canvas: '#plane', number: 'kinds', enough: 8, options: PHONE },
};

const inPage = (page, test, argument) => page.waitForFunction(test, argument, { timeout: 300000 });

async function train(page, { canvas, number, enough }) {
  const picture = () => page.$eval(canvas, element => element.toDataURL());
  const before = await picture();
  await page.click('#start');
  await inPage(
    page,
    ([id, least]) => parseFloat(document.getElementById(id).textContent) >= least,
    [number, enough],
  );
  await page.click('#start');
  await inPage(page, () => document.getElementById('start').textContent === 'Train');
  return (await picture()) !== before;
}

async function visit(name) {
  const { page, problems } = await openPage(browser, PAGES[name].options);
  await page.goto(pathToFileURL(join(folder, `${name}.html`)).href);
  await page.waitForSelector('#work:not([hidden])', { timeout: 120000 });
  await startTracing(browser, page);
  const isRedrawn = await train(page, PAGES[name]);
  const longest = longestTask(await browser.stopTracing());
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  await page.click('#reset');
  await inPage(page, () => document.getElementById('step').textContent === '0');
  await page.close();
  return { problems, longest, isRedrawn, isWide };
}

const seen = {};
for (const name of Object.keys(PAGES)) seen[name] = await visit(name);
answer(seen);
