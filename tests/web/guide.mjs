// The app of runtime_js/README.md, built by vite: node guide.mjs FOLDER [PICTURE POLICY]
// Without a picture, only what is mounted at once is tried.
import { answer, launch, openPage, serve } from './browser.mjs';

const [folder, picture, policy] = process.argv.slice(2);
const headers = policy ? { 'content-security-policy': policy } : {};
const timeout = 120000;
// As a header it also holds for the worker, which a tag of the page does not reach.
const server = await serve({ '/': folder }, headers);
const browser = await launch();
const { page, problems } = await openPage(browser);
await page.goto(`${server.url}/`);

/** The status once a training has ended. */
const ended = async () => {
  const isDone = () => document.getElementById('status').textContent.startsWith('done');
  await page.waitForFunction(isDone, null, { timeout });
  return page.textContent('#status');
};
await page.click('text=Predict', { timeout });
await page.waitForFunction(() => document.getElementById('answer').textContent, null, { timeout });
const predicted = await page.textContent('#answer');
if (!picture) answer({ predicted, problems });
await page.click('text=Train');
const trained = await ended();
await page.click('text=Train');
await page.click('text=Stop');
const stopped = await ended();
await page.click('text=Train');
const continued = await ended();
await page.setInputFiles('input', picture);
await page.waitForFunction(() => document.getElementById('digit').textContent, null, { timeout });
const digit = await page.textContent('#digit');
answer({ predicted, trained, stopped, continued, digit, problems });
