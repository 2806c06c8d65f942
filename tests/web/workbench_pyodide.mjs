// Builds every example with the compiler of a site, in Pyodide: node workbench_pyodide.mjs SITE MODULES < examples
// Prints the SHA-256 of each file that a runtime needs, by example.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { answer } from './browser.mjs';

const [site, modules] = process.argv.slice(2);
const programs = JSON.parse(await text(process.stdin));
const { loadPyodide } = await import(join(modules, 'pyodide', 'pyodide.mjs'));
const python = await loadPyodide({ stdLibURL: join(site, 'pyodide', 'python_stdlib.zip') });
for (const name of ['compiler_data.zip', 'compiler.zip'])
  python.unpackArchive(new Uint8Array(await readFile(join(site, name))), 'zip', {
    extractDir: '/compiler',
  });
python.runPython("import sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, '/compiler')");
const bench = python.pyimport('wgcc.workbench.wire').Workbench('/models');

const digests = {};
for (const { name, files, main } of programs) {
  const built = bench
    .ask('build', python.toPy({ files, main }))
    .toJs({ dict_converter: Object.fromEntries });
  digests[name] = built.problem ?? {};
  for (const [file, bytes] of Object.entries(built.files ?? {}))
    digests[name][file] = createHash('sha256').update(bytes).digest('hex');
}
answer(digests);
