// What people do with the page of `wgcc show --graph html`: node graph.mjs PAGE
import { answer, launch, openPage } from './browser.mjs';

const browser = await launch();
const { page, problems } = await openPage(browser, { viewport: { width: 1100, height: 700 } });
const requests = [];
page.on('request', request => requests.push(request.url().slice(0, 5)));
await page.goto(`file://${process.argv[2]}`);
await page.waitForSelector('.box');
const text = selector => page.textContent(selector);
const scale = () =>
  page.evaluate(() => document.querySelector('svg g').getCTM().a / devicePixelRatio);

const seen = { stages: await page.locator('#left-stage option').allTextContents() };
await page.locator('.box.step').first().click();
seen.marked = await text('#details mark');
seen.kernel = await page.locator('#details pre').last().textContent();

const before = await scale();
await page.locator('svg').hover();
await page.mouse.wheel(0, -400);
seen.grows = (await scale()) > before;
const left = await page.evaluate(() => document.querySelector('svg g').getCTM().e);
await page.mouse.move(30, 400);
await page.mouse.down();
await page.mouse.move(130, 420, { steps: 4 });
await page.mouse.up();
seen.moves = (await page.evaluate(() => document.querySelector('svg g').getCTM().e)) - left;

await page.keyboard.press('Escape');
seen.closed = await page.isHidden('#details');
await page.keyboard.press('/');
await page.keyboard.type('l1 backward');
seen.matches = await text('#matches');
await page.keyboard.press('Enter');
seen.first = await text('#details h2');
seen.highlighted = await page.locator('.box.match').count();
await page.fill('#search', '');

await page.locator('svg').focus();
const said = await text('#said');
await page.keyboard.press('ArrowDown');
seen.walked = (await text('#said')) !== said;

await page.selectOption('#left-stage', 'ir');
await page.selectOption('#right-stage', 'grad');
seen.panes = await page.locator('.pane p').allTextContents();
seen.changes = await text('#changes');
seen.new = await page.locator('.pane').nth(1).locator('.box.new').count();
seen.before = await page.locator('.pane').nth(0).locator('.box.new').count();
await page.click('.count.new');
await page.click('.count.new');
seen.secondNew = [await text('#matches'), await page.locator('.box.selected.new').count()];
await page.selectOption('#entry', 'predict');
seen.predict = await page.locator('.pane p').allTextContents();

await page.setViewportSize({ width: 390, height: 800 });
seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const light = await paper();
await page.emulateMedia({ colorScheme: 'dark' });
seen.isDark = (await paper()) !== light;
answer({ ...seen, problems, requests });
