// The documentation opened from disk: search by words and keys, widths of a phone, the printed sheet.
import { pathToFileURL } from 'node:url';
import { launch, openPage } from './browser.mjs';

const folder = `${pathToFileURL(process.argv[2]).href}/`;
const PHONE = { viewport: { width: 375, height: 700 } };
const PAGES = ['index.html', 'reference.html', 'gallery.html', 'grammar/index.html'];
const browser = await launch();
const seen = { wide: [] };

const { page, problems } = await openPage(browser, { viewport: { width: 1300, height: 900 } });
await page.goto(`${folder}grammar/index.html`);
seen.menuBeside = await page.isVisible('nav[aria-label=Pages]');
await page.keyboard.press('/');
await page.keyboard.type('softmax');
await page.waitForSelector('#results a');
seen.first = await page.$eval('#results a', link => link.firstChild.textContent);
await page.keyboard.press('ArrowDown');
await page.keyboard.press('Enter');
await page.waitForURL('**/reference.html*');
seen.opened = page.url();
await page.fill('#query', 'softmax zzzz');
await page.waitForSelector('#results p');
seen.nothing = await page.textContent('#results p');
await page.goto(`${folder}grammar/CHEATSHEET.html`);
const pdf = await page.pdf({ preferCSSPageSize: true, printBackground: true });
seen.sheets = (pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) ?? []).length;

const phone = await openPage(browser, { ...PHONE, colorScheme: 'dark' });
for (const name of [...PAGES, 'grammar/CHEATSHEET.html']) {
  await phone.page.goto(folder + name);
  const width = await phone.page.evaluate(() => document.documentElement.scrollWidth);
  if (width > PHONE.viewport.width) seen.wide.push([name, width]);
}
seen.menuOnPhone = await phone.page.isVisible('nav[aria-label=Pages]');
seen.problems = [...problems, ...phone.problems];
await browser.close();
console.log(JSON.stringify(seen));
