// The state of the workbench: one object that all parts draw from, and tell each other about.

/**
 * @typedef {'loading' | 'ready' | 'compiling' | 'training' | 'error'} State
 * @typedef {{file: string, from: number, to: number, text: string}} Edit
 * @typedef {{from: number, to: number, line: number, severity: 'error' | 'warning', code: string,
 *   message: string, advice: string[], fixes: {title: string, edits: Edit[]}[]}} Problem
 * @typedef {{at: number, text: string}} Hint
 * @typedef {{files: Record<string, Uint8Array>, kernels: Record<string, string>, plan: any, settings: any}} Built
 * @typedef {'checked' | 'built' | 'opened' | 'tab' | 'files' | 'line' | 'lit' | 'recorded'} Happening
 */

export const bench = {
  /** Programs by file name, and the one that is open. @type {Record<string, string>} */
  files: {},
  main: 'model.wg',
  /** The program that is checked and compiled: what is open, or was before a file of another kind. */
  program: 'model.wg',
  /** @type {Problem[]} */
  problems: [],
  /** @type {Hint[]} */
  hints: [],
  /** The last bundle that compiled: its files, the code of its kernels, its plan. @type {Built | null} */
  built: null,
  /** The tab that is shown, and what is searched there. */
  tab: 'Run',
  search: '',
  /** The line of the model that is pointed at; 0 for none. */
  line: 0,
  /** Which kernel is shown. */
  kernel: '',
  /** Numbers in place of those of dims, by name. @type {Record<string, number>} */
  sizes: {},
  /** Globs of the values that are captured. @type {string[]} */
  capture: [],
  /** Seed, steps, speed and kind of data of the page in the tab Run, as its links say them. */
  run: '',
  /** The lines that a training runs, and the dispatch of a single step that is shown. @type {number[]} */
  runs: [],
  /** @type {import('./dispatches.js').Place | null} */
  lit: null,
  /** @type {Partial<Record<Happening, (() => void)[]>>} */
  listeners: {},

  /** @param {Happening} happening @param {() => void} listener */
  when(happening, listener) {
    bench.listeners[happening] = [...(bench.listeners[happening] ?? []), listener];
  },
  /** @param {Happening} happening */
  announce(happening) {
    for (const listener of bench.listeners[happening] ?? []) listener();
  },
};

/** For tests, and for pages that have the workbench in a frame. @param {State} state @param {string} [words] */
export function enter(state, words) {
  document.body.dataset.state = state;
  if (words !== undefined) say(words);
}

/** @param {string} words */
export function say(words) {
  const status = document.getElementById('status');
  if (status) status.textContent = words;
}

/** A handler whose errors are said. @param {() => any} job */
export const guarded = job => async () => {
  try {
    await job();
  } catch (error) {
    say(/** @type {Error} */ (error).message);
  }
};
