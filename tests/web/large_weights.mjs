// Pages whose weights are not inside: node large_weights.mjs FOLDER, which has the bundles `beside` (a
// file beside the page) and `drawn` (no file at all).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage, serve } from './browser.mjs';

const [folder] = process.argv.slice(2);
const browser = await launch();
const problems = [];

async function openAt(url) {
  const opened = await openPage(browser);
  problems.push(opened.problems);
  await opened.page.addInitScript(() => {
    globalThis.said = [];
    const watch = () => {
      const status = document.getElementById('status');
      const note = () => globalThis.said.push(status.textContent);
      new MutationObserver(note).observe(status, { childList: true, characterData: true });
    };
    document.addEventListener('readystatechange', () => {
      if (document.readyState === 'interactive') watch();
    });
  });
  await opened.page.goto(url);
  return opened.page;
}

/** The first weights of the model, and what the status line said. */
async function facts(page) {
  await page.waitForFunction(() => globalThis.wgccPage?.isReady, null, { timeout: 120000 });
  return page.evaluate(async () => ({
    first: Array.from((await globalThis.wgccPage.model.params()).w.slice(0, 4)),
    said: globalThis.said,
  }));
}

/** As if a user dropped the file on the page. */
async function drop(page, path) {
  const text = readFileSync(path).toString('base64');
  const given = await page.evaluateHandle(text => {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], 'weights.safetensors'));
    return transfer;
  }, text);
  for (const kind of ['dragover', 'drop'])
    await page.dispatchEvent('#problem', kind, { dataTransfer: given });
}

const fileUrl = name => pathToFileURL(join(folder, name, 'index.html')).href;
const chosen = await openAt(fileUrl('beside'));
await chosen.waitForSelector('#weights-file');
const card = await chosen.textContent('#problem');
await chosen.setInputFiles('#weights-file', join(folder, 'model.wg'));
await chosen.waitForFunction(() => document.querySelectorAll('#problem p').length === 2);
const again = await chosen.textContent('#problem');
await drop(chosen, join(folder, 'beside', 'weights.safetensors'));
const disk = await facts(chosen);
const isCardGone = await chosen.isHidden('#problem');
const { url } = await serve({ '/': join(folder, 'beside') });
const served = await facts(await openAt(`${url}/index.html`));
const apart = await facts(await openAt(`${url}/served.html`));
const drawn = await facts(await openAt(fileUrl('drawn')));
answer({ card, again, isCardGone, disk, served, apart, drawn, problems: problems.flat() });
