// A text model with tokens in a page from a disk: node token_page.mjs FOLDER SCREENSHOTS. FOLDER has
// `inside`, `beside` (its file of tokens is not in the page) and book.txt.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage, serve } from './browser.mjs';

const [folder, screenshots] = process.argv.slice(2);
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const problems = [];
const urlOf = name => pathToFileURL(join(folder, name, 'index.html')).href;

async function openAt(url) {
  const opened = await openPage(context);
  problems.push(opened.problems);
  await opened.page.goto(url);
  return opened.page;
}
const isReady = page =>
  page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
const text = (page, id) => page.textContent(`#${id}`);

/** Writes after a prompt; the text that appeared, and what it was while it grew. */
async function write(page, prompt) {
  await page.waitForFunction(() => document.getElementById('write').textContent === 'Write');
  await page.fill('#prompt', prompt);
  await page.evaluate(() => {
    globalThis.grown = [];
    const note = () => globalThis.grown.push(document.getElementById('written').textContent);
    const options = { childList: true, characterData: true, subtree: true };
    new MutationObserver(note).observe(document.getElementById('written'), options);
  });
  await page.click('#write');
  await page.waitForFunction(() => document.getElementById('write').textContent === 'Write', null, {
    timeout: 120000,
  });
  return { text: await text(page, 'written'), grown: await page.evaluate(() => globalThis.grown) };
}

async function trainAndWrite(page, prompt) {
  await page.setInputFiles('#file', join(folder, 'book.txt'));
  await page.waitForFunction(() => /book/.test(document.getElementById('rows').textContent));
  await page.waitForFunction(() => !document.getElementById('start').disabled);
  const read = { takes: await text(page, 'data-takes'), rows: await text(page, 'rows') };
  await page.fill('#target', '4');
  await page.click('#start');
  await page.waitForFunction(() => globalThis.wgccPage.step === 4, null, { timeout: 120000 });
  await page.waitForFunction(() => document.getElementById('start').textContent === 'Train');
  return { ...read, written: await write(page, prompt) };
}

const page = await openAt(urlOf('inside'));
await isReady(page);
const inside = await trainAndWrite(page, 'Grüße, 世界 ');
await page.screenshot({ path: join(screenshots, 'tokens.png'), fullPage: true });
// An entry with a box for text.
await page.selectOption('#entry', 'score');
await page.fill('#text-ids', 'one two three');
const box = {
  label: await page.evaluate(() => document.querySelector('#inputs label').textContent),
  ids: await page.evaluate(async () =>
    (await globalThis.wgccPage.model.tokens()).encode('one two three', { special: false }),
  ),
};
await page.fill('#text-ids', 'one two three '.repeat(40));
box.warning = await page.textContent('#inputs .warning');

const apart = await openAt(urlOf('beside'));
await apart.waitForSelector('#tokens-file');
const card = await text(apart, 'problem');
await apart.setInputFiles('#tokens-file', join(folder, 'book.txt'));
await apart.waitForFunction(() => document.querySelectorAll('#problem p').length === 2);
const again = await text(apart, 'problem');
await apart.setInputFiles('#tokens-file', join(folder, 'beside', 'tokenizer.json'));
await isReady(apart);
const beside = await write(apart, 'The ');

const { url } = await serve({ '/': join(folder, 'beside') });
const served = await openAt(`${url}/served.html`);
await isReady(served);
const fromServer = await write(served, 'The ');
answer({ inside, box, card, again, beside, fromServer, problems: problems.flat() });
