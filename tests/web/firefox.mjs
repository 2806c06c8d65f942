// A bundle's index.html in Firefox, opened from disk: what its status line says, and that it trains.
//   node firefox.mjs INDEX.HTML PROGRAM
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { answer, watchWorkers } from './browser.mjs';

const [html, program] = process.argv.slice(2);
const require = createRequire(import.meta.url);
// Playwright itself drives only a Firefox of its own, but brings what speaks with any.
const bundled = join(process.env.NODE_FOLDER, 'node_modules/playwright-core/lib/utilsBundle.js');
const { ws: WebSocket } = require(bundled);
const profile = mkdtempSync(join(tmpdir(), 'firefox-'));
const flags = ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0'];
const firefox = spawn(program, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
process.on('exit', () => {
  firefox.kill('SIGKILL');
  rmSync(profile, { recursive: true, force: true });
});

/** Commands of WebDriver BiDi. */
async function connect() {
  const address = await new Promise(resolve => {
    firefox.stderr.on('data', text => {
      const found = /WebDriver BiDi listening on (\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
  });
  const socket = new WebSocket(`${address}/session`);
  await new Promise(resolve => socket.once('open', resolve));
  const waiting = new Map();
  socket.on('message', text => {
    const { id, result, message } = JSON.parse(text);
    waiting.get(id)?.(result ?? { message });
  });
  return (method, params) =>
    new Promise(resolve => {
      const id = waiting.size + 1;
      waiting.set(id, resolve);
      socket.send(JSON.stringify({ id, method, params }));
    });
}

const send = await connect();
await send('session.new', { capabilities: {} });
const { contexts } = await send('browsingContext.getTree', {});
const [{ context }] = contexts;
await send('script.addPreloadScript', { functionDeclaration: `${watchWorkers}` });
await send('browsingContext.navigate', {
  context,
  url: pathToFileURL(html).href,
  wait: 'complete',
});
const evaluate = async expression => {
  const options = { target: { context }, awaitPromise: true };
  return (await send('script.evaluate', { expression, ...options })).result?.value;
};
const text = id => evaluate(`document.getElementById('${id}').textContent`);
const until = condition =>
  evaluate(`new Promise(resolve => {
    const look = () => (${condition} ? resolve() : setTimeout(look, 50));
    look();
  })`);
await until("/parameters|not work/.test(document.getElementById('status').textContent)");
const status = await text('status');
await until("!document.getElementById('start').disabled");
await evaluate("document.getElementById('start').click()");
await until("Number(document.getElementById('step').textContent) >= 100");
const found = { status, loss: Number(await text('loss')), replies: await evaluate('replies') };
await evaluate("document.getElementById('start').click()");
await until("document.getElementById('start').textContent === 'Train'");

/** In the page: chooses a table in the card of the data. */
function chooseTable(lines) {
  const transfer = new DataTransfer();
  transfer.items.add(new File([lines.join('\n')], 'table.csv'));
  const input = document.getElementById('file');
  input.files = transfer.files;
  input.dispatchEvent(new Event('change'));
}
// A table with decimal commas; the model, which has learned from other data, begins anew.
const rows = Array.from({ length: 20 }, (_, i) => `${i},5;${i % 3};0,${i};1;${'uvw'[i % 3]}`);
const lines = JSON.stringify(['a;b;c;d;species', ...rows]);
await evaluate(`(${chooseTable})(${lines})`);
await until("!document.getElementById('data-question').hidden");
await evaluate("document.querySelector('#data-question button').click()");
await until("/to learn from/.test(document.getElementById('rows').textContent)");
found.rows = await text('rows');
found.notes = await text('data-notes');
found.cells = await evaluate(
  "Array.from(document.querySelectorAll('#preview tbody tr:first-child td'), cell => cell.textContent).join(' ')",
);
await until("!document.getElementById('start').disabled");
await evaluate("document.getElementById('start').click()");
await until("Number(document.getElementById('step').textContent) >= 20");
found.learned = Number(await text('loss'));
answer(found);
