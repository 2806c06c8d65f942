// The dispatches of the last build, with the lines of the model that they come from.

import { bench } from './state.js';

/** @typedef {{entry: string, number: number, kernel: string, line: number}} Place of a dispatch */

/** The dispatches of all entries. @param {any} plan @returns {any[]} */
export const dispatchesOf = plan =>
  Object.entries(plan.entries).flatMap(([entry, { dispatches }]) =>
    dispatches.map((/** @type {any} */ dispatch, /** @type {number} */ number) => ({
      ...dispatch,
      entry,
      number,
    })),
  );

/** The line of the model that a place names; 0 for another file. @param {string | undefined} at */
export const lineOf = at => {
  const [file, line] = (at ?? '').split(':');
  return file === bench.main ? Number(line) : 0;
};

/** Those of an entry, in the order in which they run. @param {string} name @returns {Place[]} */
export function placesOf(name) {
  const plan = bench.built?.plan;
  return dispatchesOf(plan ?? { entries: {} })
    .filter(({ entry }) => entry === name)
    .map(({ entry, number, kernel, at }) => ({
      entry,
      number,
      kernel: plan.kernels[kernel].name,
      line: lineOf(at),
    }));
}

/** @param {string} name @returns {number[]} */
export const linesOfEntry = name =>
  [...new Set(placesOf(name).map(({ line }) => line))].filter(Boolean);

/** @param {any} plan @returns {Map<string, number[]>} lines of the model by kernel */
export function linesOfKernels(plan) {
  const lines = new Map();
  for (const { kernel, at } of dispatchesOf(plan)) {
    const { name } = plan.kernels[kernel];
    const known = lines.get(name) ?? [];
    if (!known.includes(lineOf(at))) lines.set(name, [...known, lineOf(at)]);
  }
  return lines;
}

/** The line that a text of the compiler names. @param {string} text */
export function namedLine(text) {
  const name = bench.main.replaceAll('.', '\\.');
  return Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? 0);
}
