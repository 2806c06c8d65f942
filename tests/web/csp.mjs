// A page whose policy allows scripts of its own origin only, with a bundle's index.js: node csp.mjs
// BUNDLE
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { answer, launch, openPage, serve } from './browser.mjs';

const app = join(import.meta.dirname, 'app');
const folder = mkdtempSync(join(tmpdir(), 'wgcc-'));
process.on('exit', () => rmSync(folder, { recursive: true }));
cpSync(app, folder, { recursive: true });
writeFileSync(
  join(folder, 'main.js'),
  readFileSync(join(app, 'main.js'), 'utf8').replace("'@my-models/digits'", "'./bundle/index.js'"),
);
const policy = "script-src 'self'";
const server = await serve(
  { '/bundle/': process.argv[2], '/': folder },
  { 'content-security-policy': policy },
);
const browser = await launch();
const { page, problems } = await openPage(browser);
const response = await page.goto(`${server.url}/`);
await page.waitForFunction(() => document.getElementById('out').textContent !== 'loading', null, {
  timeout: 120000,
});
answer({
  text: await page.textContent('#out'),
  problems,
  policy: response.headers()['content-security-policy'],
});
