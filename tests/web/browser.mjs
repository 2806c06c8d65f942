// Chromium as the tests use it: WebGPU on SwiftShader, with all errors collected.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';

const require = createRequire(join(process.env.NODE_FOLDER, 'from-here.js'));
const { chromium } = require('playwright-core');
export const FLAGS = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  // SwiftShader compiles a matrix product in 0.05 instead of 2 seconds.
  '--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension',
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const NAMES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

export const launch = (options = {}) =>
  chromium.launch({ executablePath: NAMES.find(existsSync), args: FLAGS, ...options });

/** A page whose errors and console warnings are added to `problems`. */
export async function openPage(browser, options) {
  const page = await browser.newPage(options);
  const problems = [];
  page.on('pageerror', error => problems.push(`error: ${error.message}`));
  page.on('console', message => {
    if (/error|warning/.test(message.type())) problems.push(`${message.type()}: ${message.text()}`);
  });
  return { page, problems };
}

/** Serves folders by prefix on this machine; `headers` are sent with every response. */
export async function serve(folders, headers = {}) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const prefix = Object.keys(folders).find(key => path.startsWith(key));
    try {
      const name = path.slice(prefix.length) || 'index.html';
      const data = await readFile(join(folders[prefix], name));
      response
        .writeHead(200, {
          'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
          ...headers,
        })
        .end(data);
    } catch {
      response.writeHead(path === '/favicon.ico' ? 204 : 404).end();
    }
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** In a page: counts what its workers say, in `replies`. */
export function watchWorkers() {
  const Own = globalThis.Worker;
  globalThis.replies = 0;
  globalThis.Worker = class extends Own {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', () => globalThis.replies++);
    }
  };
}

/** The end: what was seen, as JSON. */
export const answer = value => process.stdout.write(JSON.stringify(value), () => process.exit(0));
