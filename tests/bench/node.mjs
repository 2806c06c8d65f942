// Steps of one library in Node: the task is the first line of stdin; each further line asks for a
// block of steps and is answered by a line of JSON.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { serve } from '../web/browser.mjs';
import { reply, requests } from './requests.mjs';

const lines = requests();
const {
  value: { folder, library, ...task },
} = await lines.next();
const server = await serve({ '/': folder });
globalThis.benchTask = { ...task, folder, files: server.url, scripts: pathToFileURL(folder).href };
await import(pathToFileURL(join(folder, 'node', `${library}.js`)).href);
while (!globalThis.begun) await new Promise(done => setTimeout(done, 10));
reply(globalThis.begun);
for await (const request of lines) {
  const before = process.cpuUsage();
  const seen = await globalThis.block(request);
  const { user, system } = process.cpuUsage(before);
  reply({ ...seen, cpu: (user + system) / 1000 });
}
process.exit(0);
