// The tables of test files: what the model says of each before and after learning.

import { $ } from '../../runtime_js/page/elements.js';

/** A new element, at the end of `parent` if there is one. */
export function make(tag, text, parent, properties) {
  const element = Object.assign(document.createElement(tag), { textContent: text }, properties);
  parent?.append(element);
  return element;
}
export const percent = p => `${Math.round(100 * p)}\u00a0%`;
export const largest = probabilities => probabilities.indexOf(Math.max(...probabilities));

/** Fills the two tables and the scores. `show`: called with a file whose name is clicked. */
export function showFiles(files, nameOf, show) {
  for (const isNew of [true, false]) {
    const id = isNew ? 'new' : 'known';
    const held = files.filter(file => file.isNew === isNew);
    const body = $(`${id}-files`).tBodies[0];
    body.replaceChildren(...held.map(file => fileRow(file, nameOf, show)));
    $(`${id}-score`).textContent = scoreText(held);
  }
}

function fileRow(file, nameOf, show) {
  const row = make('tr', '');
  const first = make('td', '', row);
  make('button', file.path.split('/').slice(-2).join('/'), first, {
    title: file.path,
    onclick: () => show(file),
  });
  make('small', `is ${nameOf(file.kind)}`, first);
  for (const probabilities of [file.before, file.after])
    if (probabilities) verdictCell(row, probabilities, file.kind, nameOf);
    else make('td', '–', row);
  return row;
}

function verdictCell(row, probabilities, kind, nameOf) {
  const best = largest(probabilities);
  const isRight = best === kind;
  const text = `${isRight ? '✓' : '✗'} ${nameOf(best)} ${percent(probabilities[best])}`;
  make('td', text, row, { className: isRight ? 'right' : 'wrong' });
}

/** `0 → 16 of 16` */
export function scoreText(files) {
  const count = side =>
    files.filter(file => file[side] && largest(file[side]) === file.kind).length;
  const isTrained = files.some(file => file.after);
  return `${count('before')}${isTrained ? ` → ${count('after')}` : ''} of ${files.length}`;
}
