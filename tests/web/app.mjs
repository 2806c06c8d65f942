// Opens an app that vite built: node app.mjs FOLDER
import { answer, launch, openPage, serve } from './browser.mjs';

const server = await serve({ '/': process.argv[2] });
const browser = await launch();
const { page, problems } = await openPage(browser);
await page.goto(`${server.url}/`);
await page.waitForFunction(() => document.getElementById('out').textContent !== 'loading', null, {
  timeout: 120000,
});
answer({ text: await page.textContent('#out'), problems });
