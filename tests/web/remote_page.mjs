// A page from a disk whose model is in a worker: node remote_page.mjs PAGE
import { pathToFileURL } from 'node:url';
import { answer, launch, openPage } from './browser.mjs';

const [html] = process.argv.slice(2);
const browser = await launch();
const { page, problems } = await openPage(browser);
await page.goto(pathToFileURL(html).href);
await page.waitForFunction(() => document.title !== 'waiting', null, { timeout: 60000 });
answer({ title: await page.title(), problems });
