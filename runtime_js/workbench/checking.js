// Checks of the text that is open, while it is typed: what the compiler says is shown below the editor.

import { $, h, put } from '../page/elements.js';
import { ask, CANCELLED } from './compiler.js';
import { applyEdits, drawChecked, textOf } from './editor.js';
import { keep } from './sharing.js';
import { drawSizes } from './sizes.js';
import { bench, say } from './state.js';

/** Milliseconds without a key after which the text is checked. */
const PAUSE = 150;
let timer = 0;
/** The check that goes on. @type {Promise<void> | null} */
let asking = null;
/** The text that the compiler has seen last: places in questions are places of it. */
let seen = '';
/** The text that a compiler could not check: the next one is not asked again. */
let refused = '';

export function changed() {
  bench.files[bench.main] = textOf();
  keep();
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
}

/** Waits until the compiler has seen the text as it is. */
export async function whenChecked() {
  while (seen !== identity()) {
    const [text, isNew] = [identity(), !asking];
    clearTimeout(timer);
    await check();
    // The compiler could not answer.
    if (isNew && text === identity() && seen !== text) return;
  }
}

/** The text, and which file it is. */
const identity = () => `${bench.program} ${bench.main}\n${textOf()}`;

async function check() {
  if (refused === identity()) return;
  asking ??= askForCheck().finally(() => {
    asking = null;
  });
  await asking;
}

async function askForCheck() {
  const given = identity();
  try {
    const settings = { files: bench.files, main: bench.program };
    const { answer, ms, heap } = await ask('check', settings);
    seen = given;
    if (given === identity()) show(answer, ms, heap);
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    say(message);
    if (message !== CANCELLED) {
      refused = given;
      // It stays there when the next compiler says that it starts.
      put('problems', h('div', message, { className: 'problem' }));
    }
  } finally {
    if (given !== identity()) changed();
  }
}

/** @param {any} answer @param {number} ms @param {number} heap */
function show(answer, ms, heap) {
  bench.problems = answer.problems;
  bench.hints = bench.main === bench.program ? answer.hints : [];
  drawChecked();
  drawSizes(answer.dims);
  drawProblems();
  Object.assign(globalThis, { wgccChecked: { ms, heap, problems: answer.problems.length } });
  bench.announce('checked');
}

function drawProblems() {
  put('problems', bench.problems.map(drawProblem));
  $('train').disabled = bench.problems.some(({ severity }) => severity === 'error');
}

/** @param {import('./state.js').Problem} problem */
const drawProblem = problem =>
  h(
    'div',
    [
      h('b', `${problem.severity} ${problem.code} `),
      `line ${problem.line}: ${problem.message}`,
      h('pre', frameOf(problem), { tabIndex: 0 }),
      `${problem.advice.join('\n')} `,
      ...problem.fixes.map(({ title, edits }) =>
        h('button', `Apply: ${title}`, { onclick: () => applyEdits(edits) }),
      ),
    ],
    { className: 'problem' },
  );

/** The line with carets under the place. @param {import('./state.js').Problem} problem */
function frameOf({ from, to }) {
  const text = bench.files[bench.program];
  const start = text.lastIndexOf('\n', from - 1) + 1;
  const end = text.indexOf('\n', start);
  const line = text.slice(start, end < 0 ? undefined : end);
  const width = Math.max(1, Math.min(to, start + line.length) - from);
  return `  ${line}\n  ${' '.repeat(from - start)}${'^'.repeat(width)}`;
}
