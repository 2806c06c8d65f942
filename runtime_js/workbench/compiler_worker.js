// The compiler: Pyodide in a worker, which answers one question after the other. As `compiler.js?keep`
// it answers nothing, but keeps its memory for later visits.

import { enlarged, forgetMemory, hasMemory, keepMemory, keptMemory } from './snapshot.js';

/**
 * @typedef {{id: number, question: string, settings: any}} Question
 * @typedef {{id: number, answer?: any, problem?: string, isFatal?: boolean, phase?: string, isKept?: boolean, ms?: number, heap?: number}} Reply
 */

/** @param {string} name */
const bytesOf = async name => {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} cannot be fetched: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
};

/** @param {Reply} reply */
const send = reply => postMessage(reply);

/** Python with the files that the compiler reads. @param {any} options */
async function load(options) {
  const archive = bytesOf('./compiler_data.zip');
  // @ts-expect-error - the path is of the site, not of the sources.
  const { loadPyodide } = await import('./pyodide/pyodide.mjs');
  const python = await loadPyodide(options);
  python.FS.mkdirTree('/compiler');
  python.unpackArchive(await archive, 'zip', { extractDir: '/compiler' });
  return python;
}

let hasModules = false;

/** @param {any} python */
async function fetchModules(python) {
  if (hasModules) return;
  python.unpackArchive(await bytesOf('./compiler.zip'), 'zip', { extractDir: '/compiler' });
  hasModules = true;
}

/** New objects after which Python looks for unreachable ones: a compilation makes millions that stay. */
const COLLECT_AFTER = 50_000;

/** As at every first visit. */
async function loadPlainly(options = {}) {
  const python = await load(options);
  send({ id: 0, phase: 'unpacking the compiler' });
  await fetchModules(python);
  python.runPython(`
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, '/compiler')
import gc
gc.set_threshold(${COLLECT_AFTER})
`);
  send({ id: 0, phase: 'importing the compiler' });
  return python;
}

/** As the last visit left it; null if there is nothing, or nothing that works. */
async function loadKept() {
  const memory = await keptMemory();
  if (!memory) return null;
  try {
    return await load({ _loadSnapshot: memory, createPyodideModule: enlarged });
  } catch {
    await forgetMemory();
    return null;
  }
}

async function start() {
  const python = (await loadKept()) ?? (await loadPlainly());
  const wire = python.pyimport('wgcc.workbench.wire');
  const say = (/** @type {string} */ phase) => send({ id: 0, phase });
  return { python, workbench: wire.Workbench('/models', say) };
}

/** A model is built first, so that all modules are in memory: files are not part of it. */
async function keep() {
  if (await hasMemory()) return;
  const python = await loadPlainly({ _makeSnapshot: true });
  const examples = await (await fetch(new URL('./examples.json', import.meta.url))).json();
  const { files, main } = examples.find((/** @type {any} */ { name }) => name === 'sin');
  python.globals.set('text', files[main]);
  python.runPython(`
import gc
from wgcc.workbench.wire import Workbench
bench = Workbench('/models')
program = {'files': {'model.wg': text}, 'main': 'model.wg'}
bench.ask('check', program)
bench.ask('build', program)
del bench, program, text
gc.collect()
`);
  await keepMemory(python.makeMemorySnapshot());
}

/** Imports what compiling needs, in portions: questions that come meanwhile are answered in between. */
async function prepare() {
  const { workbench } = /** @type {any} */ (await started);
  while (workbench.prepare()) await new Promise(done => setTimeout(done));
}

const isKeeper = new URL(self.location.href).search === '?keep';
const started = isKeeper ? keep() : start();
let hasPages = false;
let hasPrepared = false;

/** What only these need: the sources of the web runtime, and the model of GPUs. */
const NEED_PAGES = ['bundle', 'figures'];

/** @param {any} python */
async function fetchPages(python) {
  if (hasPages) return;
  python.unpackArchive(await bytesOf('./pages.zip'), 'zip', { extractDir: '/compiler' });
  hasPages = true;
}

/** The memory of a kept compiler has the modules that checks need, nearly always. @param {Question} question @returns {Promise<Reply>} */
async function answer(question) {
  const { python } = /** @type {any} */ (await started);
  if (hasModules || question.question !== 'check') {
    await fetchModules(python);
    return answerNow(question);
  }
  try {
    return await answerNow(question);
  } catch (error) {
    if (isFatal(error)) throw error;
    await fetchModules(python);
    return answerNow(question);
  }
}

/** @param {Question} question @returns {Promise<Reply>} */
async function answerNow({ id, question, settings }) {
  const { python, workbench } = /** @type {any} */ (await started);
  if (NEED_PAGES.includes(question)) await fetchPages(python);
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

/** Has Python ended, because it used up the stack, or WebAssembly trapped? @param {any} error */
const isFatal = error =>
  error instanceof RangeError ||
  error instanceof WebAssembly.RuntimeError ||
  String(error?.message).includes('fatally failed');

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
    send({ id: data.id, problem: wordsOf(error), isFatal: isFatal(error) });
  }
  // A compiler from a kept memory has imported all.
  if (hasPrepared || !hasModules) return;
  hasPrepared = true;
  prepare().catch(() => {});
};
started.then(
  () => send({ id: 0, phase: 'ready', isKept: !isKeeper && !hasModules }),
  error => send({ id: 0, problem: wordsOf(error) }),
);
