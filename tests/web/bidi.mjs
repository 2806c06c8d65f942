// Firefox without a window, by WebDriver BiDi.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(import.meta.url);
// Playwright itself drives only a Firefox of its own, but brings what speaks with any.
const bundled = join(process.env.NODE_FOLDER, 'node_modules/playwright-core/lib/utilsBundle.js');
const { ws: WebSocket } = require(bundled);

/** A page of a new profile. It ends with this process. */
export async function openFirefox(program) {
  const profile = mkdtempSync(join(tmpdir(), 'firefox-'));
  const flags = ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0'];
  const firefox = spawn(program, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
  process.on('exit', () => {
    firefox.kill('SIGKILL');
    rmSync(profile, { recursive: true, force: true });
  });
  const send = await connect(firefox);
  await send('session.new', { capabilities: {} });
  const { contexts } = await send('browsingContext.getTree', {});
  const [{ context }] = contexts;
  const evaluate = async expression => {
    const options = { target: { context }, awaitPromise: true };
    return (await send('script.evaluate', { expression, ...options })).result?.value;
  };
  return {
    evaluate,
    text: id => evaluate(`document.getElementById('${id}').textContent`),
    preload: action => send('script.addPreloadScript', { functionDeclaration: `${action}` }),
    goTo: url => send('browsingContext.navigate', { context, url, wait: 'complete' }),
    until: condition =>
      evaluate(`new Promise(resolve => {
        const look = () => (${condition} ? resolve() : setTimeout(look, 50));
        look();
      })`),
  };
}

async function connect(firefox) {
  const address = await new Promise(resolve => {
    firefox.stderr.on('data', text => {
      const line = /WebDriver BiDi listening on (\S+)/.exec(text);
      if (line) resolve(line[1]);
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
