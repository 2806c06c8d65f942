// The compiler: Pyodide in a worker, which answers one question after the other.

/**
 * @typedef {{id: number, question: string, settings: any}} Question
 * @typedef {{id: number, answer?: any, problem?: string, phase?: string, ms?: number, heap?: number}} Reply
 */

/** @param {string} name */
const bytesOf = async name => {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} cannot be fetched: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
};

/** @param {Reply} reply */
const send = reply => postMessage(reply);

async function start() {
  const archive = bytesOf('./compiler.zip');
  // @ts-expect-error - the path is of the site, not of the sources.
  const { loadPyodide } = await import('./pyodide/pyodide.mjs');
  const python = await loadPyodide();
  send({ id: 0, phase: 'unpacking the compiler' });
  python.FS.mkdirTree('/compiler');
  python.unpackArchive(await archive, 'zip', { extractDir: '/compiler' });
  python.runPython(`
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, '/compiler')
`);
  send({ id: 0, phase: 'importing the compiler' });
  const wire = python.pyimport('wgcc.workbench.wire');
  const say = (/** @type {string} */ phase) => send({ id: 0, phase });
  return { python, workbench: wire.Workbench('/models', say) };
}

const started = start();
let hasPages = false;

/** Whole bundles need the sources of the web runtime, which nothing else does. @param {any} python */
async function fetchPages(python) {
  if (hasPages) return;
  python.unpackArchive(await bytesOf('./pages.zip'), 'zip', { extractDir: '/compiler' });
  hasPages = true;
}

/** @param {Question} question @returns {Promise<Reply>} */
async function answer({ id, question, settings }) {
  const { python, workbench } = await started;
  if (question === 'bundle') await fetchPages(python);
  const since = performance.now();
  const given = python.toPy(settings);
  const result = workbench.ask(question, given);
  const isProxy = result?.toJs !== undefined;
  const plain = isProxy ? result.toJs({ dict_converter: Object.fromEntries }) : result;
  if (isProxy) result.destroy();
  given.destroy?.();
  const heap = python._module.HEAP8.length;
  return { id, answer: plain, ms: performance.now() - since, heap };
}

/** The last line of Python's traceback says what went wrong. @param {any} error */
const wordsOf = error =>
  String(error?.message ?? error)
    .trim()
    .split('\n')
    .at(-1) ?? '';

self.onmessage = async ({ data }) => {
  try {
    send(await answer(data));
  } catch (error) {
    send({ id: data.id, problem: wordsOf(error) });
  }
};
started.then(
  () => send({ id: 0, phase: 'ready' }),
  error => send({ id: 0, problem: wordsOf(error) }),
);
