// What speedscope, a viewer of traces, reads from a file: node speedscope.mjs TRACE. Its own format
// for saving profiles says how it understood them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { answer, launch, openPage, serve } from './browser.mjs';

const viewer = join(process.env.NODE_FOLDER, 'node_modules/speedscope/dist/release');
const server = await serve({ '/': viewer });
const browser = await launch();
const { page, problems } = await openPage(browser);
await page.goto(`${server.url}/index.html`);
const file = page.waitForEvent('filechooser');
await page.getByText('Browse', { exact: true }).click();
await (await file).setFiles({
  name: 'trace.json',
  mimeType: 'application/json',
  buffer: readFileSync(process.argv[2]),
});
const saved = page.waitForEvent('download');
await page.getByText('Export').click();
const path = await (await saved).path();
answer({ saved: JSON.parse(readFileSync(path, 'utf8')), problems });
