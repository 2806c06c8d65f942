// A bundle on a page from http, where browsers give neither WebGPU nor digests: node http.mjs
// BUNDLE
import { answer, FLAGS, launch, openPage, serve } from './browser.mjs';

const browser = await launch({
  args: [...FLAGS, '--host-resolver-rules=MAP school.test 127.0.0.1'],
});
const { url } = await serve({ '/': process.argv[2] });
const { page, problems } = await openPage(browser);
await page.goto(`${url.replace('127.0.0.1', 'school.test')}/index.html`);
await page.waitForSelector('#problem:not([hidden])');
const card = await page.textContent('#problem');
const code = await page.evaluate(() =>
  import('/index.js').then(({ load }) => load()).catch(error => error.code),
);
answer({ card, code, problems });
