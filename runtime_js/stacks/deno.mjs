// Runs a job on a bundle in Deno: deno run --allow-all deno.mjs BUNDLE JOB < arguments.json >
// result.json
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [bundle, job] = Deno.args;
const file = path => import(pathToFileURL(resolve(path)).href);
let answer;
try {
  const index = await file(`${bundle}/index.js`);
  const inspect = () => file(`${bundle}/wgcc/inspect.js`);
  const run = (await file(job)).default;
  answer = {
    result: await run(
      // Not the twin, unless the job asks for it.
      { ...index, inspect, device: navigator.gpu ?? 'webgpu' },
      JSON.parse(await new Response(Deno.stdin.readable).text()),
    ),
  };
} catch (error) {
  answer = { code: error.code, message: `${error.message}` };
}
await new Blob([JSON.stringify(answer)]).stream().pipeTo(Deno.stdout.writable);
Deno.exit(0);
