// What is known of one box: its source line, the kernel with its figures, and its neighbours.
/** @import { Page } from './data.js' */
/** @import { Pane } from './pane.js' */

// Lines of the source that are shown before and after the one of a box.
const AROUND = 4;

/** @param {string} tag @param {(Node | string)[]} [children] @param {Record<string, any>} [properties] */
export function element(tag, children = [], properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** @param {Page} page @param {Pane} pane @param {number} n @param {(n: number) => void} go @returns {Node[]} */
export function detailsOf(page, pane, n, go) {
  const box = pane.stage.boxes[n];
  const facts = {
    stage: pane.stage.name,
    value: box.name,
    type: box.kernel ? '' : box.detail,
    layer: box.place,
    line: box.at,
    kernel: box.kernel,
  };
  const rows = Object.entries(facts).filter(([, value]) => value);
  return [
    element('h2', [box.title]),
    element(
      'dl',
      rows.flatMap(([name, value]) => [element('dt', [name]), element('dd', [value])]),
    ),
    ...links('needs', pane, pane.near.needs[n], go),
    ...links('is used by', pane, pane.near.users[n], go),
    ...source(page, box.at),
    ...kernel(page, box.kernel),
  ];
}

/** @param {string} title @param {Pane} pane @param {number[]} boxes @param {(n: number) => void} go */
function links(title, pane, boxes, go) {
  if (!boxes.length) return [];
  const items = boxes.map(n => {
    const { title: op, name } = pane.stage.boxes[n];
    const text = name && name !== op ? `${op} → ${name}` : op;
    return element('li', [element('button', [text], { onclick: () => go(n) })]);
  });
  return [element('h3', [title]), element('ul', items, { className: 'links' })];
}

/** @param {Page} page @param {string} at `model.wg:12` */
function source(page, at) {
  const [, file, line] = /^(.*):(\d+)$/.exec(at) ?? [];
  if (file !== page.file || !page.lines.length) return [];
  const first = Math.max(1, Number(line) - AROUND);
  const lines = page.lines.slice(first - 1, Number(line) + AROUND).map((text, i) => {
    const numbered = `${String(first + i).padStart(4)}  ${text}\n`;
    return first + i === Number(line) ? element('mark', [numbered]) : numbered;
  });
  return [element('h3', [at]), element('pre', lines, { tabIndex: 0 })];
}

/** @param {Page} page @param {string} name */
function kernel(page, name) {
  const text = page.kernels[name];
  if (!text) return [];
  return [element('h3', [`kernel ${name}`]), element('pre', [text], { tabIndex: 0 })];
}
