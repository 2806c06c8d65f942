// Memory as a timeline: which dispatches of an entry use each buffer, from the first to the last.

import { h } from '../page/elements.js';

const NAMES = 'http://www.w3.org/2000/svg';
const ROW = 16;
const LEFT = 150;
const WIDTH = 620;
const COLOURS = new Map([
  ['temp', 'var(--accent)'],
  ['grads', 'var(--warm)'],
]);

/** @param {any} plan @param {string} search in names of buffers @returns {Node[]} a figure for each entry */
export function drawMemory(plan, search) {
  const parts = Object.entries(plan.memory).map(
    ([name, bytes]) => `${name} ${kilobytes(Number(bytes))}`,
  );
  return [
    h('p', parts.join(' · '), { className: 'note' }),
    ...Object.entries(plan.entries).map(([name, entry]) => entryFigure(plan, name, entry, search)),
  ];
}

/** @param {number} bytes */
const kilobytes = bytes =>
  bytes < 1000
    ? `${bytes} B`
    : `${(bytes / 1000).toLocaleString('en', { maximumFractionDigits: 1 })} kB`;

/** @param {any} plan @param {string} name @param {any} entry @param {string} search */
function entryFigure(plan, name, entry, search) {
  const isShown = (/** @type {[number, any]} */ [buffer]) =>
    `${plan.buffers[buffer].name} ${plan.buffers[buffer].role}`.toLowerCase().includes(search);
  const lives = new Map([...livesOf(entry.dispatches)].filter(isShown));
  const svg = element('svg', {
    viewBox: `0 0 ${LEFT + WIDTH} ${(lives.size + 1) * ROW}`,
    role: 'img',
  });
  svg.setAttribute(
    'aria-label',
    `Buffers of ${name} over its ${entry.dispatches.length} dispatches`,
  );
  const step = WIDTH / Math.max(1, entry.dispatches.length);
  let row = 0;
  for (const [buffer, life] of lives) {
    const { name: title, bytes, role } = plan.buffers[buffer];
    svg.append(...bar(row++, `${title} ${kilobytes(bytes)}`, role, life, step));
  }
  return h('figure', [h('figcaption', `${name}: buffers over its dispatches`), svg], {
    tabIndex: 0,
  });
}

/** First and last use of each buffer. @param {any[]} dispatches @returns {Map<number, [number, number]>} */
function livesOf(dispatches) {
  const lives = new Map();
  for (const [at, { bindings }] of dispatches.entries())
    for (const { buffer } of bindings) lives.set(buffer, [lives.get(buffer)?.[0] ?? at, at]);
  return new Map([...lives].sort(([a], [b]) => a - b));
}

/** @param {number} row @param {string} title @param {string} role @param {[number, number]} life @param {number} step */
function bar(row, title, role, [first, last], step) {
  const colour = COLOURS.get(role) ?? 'var(--soft)';
  const label = element('text', { x: 0, y: row * ROW + 11 });
  label.textContent = title;
  const shape = element('rect', {
    x: LEFT + first * step,
    y: row * ROW + 3,
    width: Math.max(2, (last - first + 1) * step - 1),
    height: ROW - 6,
    rx: 3,
    fill: colour,
  });
  const words = element('title', {});
  words.textContent = `${title} (${role}): dispatches ${first + 1} to ${last + 1}`;
  shape.append(words);
  return [label, shape];
}

/** @param {string} tag @param {Record<string, string | number>} attributes */
function element(tag, attributes) {
  const node = document.createElementNS(NAMES, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return node;
}
