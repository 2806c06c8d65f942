// The compiler's worker, seen from the page: questions and answers. A question that takes too long
// ends the worker; the next one starts another.

/** Milliseconds after which a question is given up, once the compiler is there. */
export const LONGEST = 90_000;

/** @type {Worker | null} */
let worker = null;
let last = 0;
/** Starts the clocks of all that is asked before the compiler is there. @type {() => void} */
let begin = () => {};
/** @type {Promise<void>} */
let started = Promise.resolve();
/** @type {Map<number, {resolve: (reply: any) => void, reject: (error: Error) => void}>} */
const waiting = new Map();
/** @type {(phase: string) => void} */
let tell = () => {};

/** @param {(phase: string) => void} listener of what the compiler is doing */
export function startCompiler(listener) {
  tell = listener;
  open();
}

/** The worker's answer, with the milliseconds that it took. @param {string} question @param {any} settings @returns {Promise<{answer: any, ms: number, heap: number}>} */
export function ask(question, settings, longest = LONGEST) {
  const id = ++last;
  return new Promise((resolve, reject) => {
    let timer = 0;
    const done = (/** @type {() => void} */ act) => {
      clearTimeout(timer);
      act();
    };
    const compiler = open();
    // A slow network, or a slow machine, is no fault of the model.
    started.then(() => {
      if (waiting.has(id)) timer = setTimeout(() => stopCompiler(tooLong(longest)), longest);
    });
    waiting.set(id, {
      resolve: reply => done(() => resolve(reply)),
      reject: error => done(() => reject(error)),
    });
    compiler.postMessage({ id, question, settings });
  });
}

export const CANCELLED = 'cancelled';
const TOO_DEEP =
  'the model nests deeper than a browser can follow (wgcc check and wgcc build go on)';

/** Ends the worker and all that was asked. @param {string} [why] */
export function stopCompiler(why = CANCELLED) {
  worker?.terminate();
  worker = null;
  const asked = [...waiting.values()];
  waiting.clear();
  for (const { reject } of asked) reject(new Error(why));
  open();
}

/** @param {number} ms */
const tooLong = ms =>
  `the compiler took more than ${ms / 1000} seconds: the model is too large for the workbench (wgcc build has no such limit)`;

function open() {
  if (worker) return worker;
  started = new Promise(done => {
    begin = done;
  });
  worker = new Worker(new URL('./compiler.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => take(data);
  worker.onerror = event => fail(event.message || 'the compiler could not be started');
  return worker;
}

/** @param {any} reply */
function take(reply) {
  if (!reply.id) {
    if (reply.problem) return fail(reply.problem);
    if (reply.phase === 'ready') {
      Object.assign(globalThis, { wgccStarted: reply });
      begin();
    }
    return tell(reply.phase);
  }
  if (reply.isFatal) return stopCompiler(TOO_DEEP);
  const asker = waiting.get(reply.id);
  waiting.delete(reply.id);
  if (reply.problem) asker?.reject(new Error(wordsOf(reply.problem)));
  else asker?.resolve(reply);
}

/** Milliseconds after the first answer, in which people read or type. */
const KEEP_AFTER = 5000;

/** Later visits start from the memory of a compiler, which a worker of its own makes meanwhile. */
export function keepForLater() {
  setTimeout(() => {
    const address = new URL('./compiler.js?keep', import.meta.url);
    const keeper = new Worker(address, { type: 'module' });
    keeper.onerror = () => keeper.terminate();
    keeper.onmessage = ({ data }) => {
      if (data.phase !== 'ready' && !data.problem) return;
      keeper.terminate();
      Object.assign(globalThis, { wgccKept: data.problem ?? true });
    };
  }, KEEP_AFTER);
}

/** @param {string} problem */
const wordsOf = problem =>
  problem.startsWith('MemoryError')
    ? 'the compiler has no memory left: the model is too large for the workbench'
    : problem;

/** @param {string} problem */
function fail(problem) {
  for (const { reject } of waiting.values()) reject(new Error(problem));
  waiting.clear();
  tell(`failed: ${problem}`);
}
