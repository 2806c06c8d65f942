// One drawing: boxes and arrows as SVG, which can be moved, made larger, and walked along by keys.
/** @import { Change } from './changes.js' */
/** @import { Stage } from './data.js' */
import { HEIGHT, layOut, neighbours, shorten } from './layout.js';

const NAMESPACE = 'http://www.w3.org/2000/svg';
const SMALLEST = 0.02;
const LARGEST = 4;
// A pointer that moved less than this many pixels was a click.
const CLICK = 4;
// Where the first row begins, in pixels.
const TOP = 70;

/** @param {string} tag @param {Record<string, string | number>} attributes @param {string} [text] */
function svg(tag, attributes, text) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, `${value}`);
  if (text !== undefined) element.textContent = text;
  return element;
}

export class Pane {
  /** @param {Stage} stage @param {Change[]} changes @param {(pane: Pane, box: number) => void} select */
  constructor(stage, changes, select) {
    this.stage = stage;
    this.changes = changes;
    this.layout = layOut(stage);
    this.near = neighbours(stage);
    this.selected = -1;
    this.select = select;
    this.view = { x: 0, y: 0, scale: 1 };
    this.root = svg('svg', {
      tabindex: 0,
      role: 'application',
      'aria-label': `graph: ${stage.name}`,
    });
    this.moved = svg('g', {});
    this.arrows = stage.arrows.map(arrow => this.#arrow(arrow));
    this.boxes = stage.boxes.map((_, n) => this.#box(n, changes[n] ?? ''));
    this.moved.append(...this.arrows, ...this.boxes);
    this.root.append(this.moved);
    this.element = document.createElement('div');
    this.element.className = 'pane';
    const title = document.createElement('p');
    title.textContent = `${stage.name}: ${stage.boxes.length} boxes`;
    this.element.append(this.root, title);
    this.#listen();
  }

  /** @param {[number, number]} arrow */
  #arrow([from, to]) {
    const a = this.layout.places[from];
    const b = this.layout.places[to];
    const top = a.y + HEIGHT / 2;
    const bottom = b.y - HEIGHT / 2;
    const bend = (bottom - top) / 2;
    return svg('path', {
      d: `M${a.x} ${top} C${a.x} ${top + bend} ${b.x} ${bottom - bend} ${b.x} ${bottom}`,
    });
  }

  /** @param {number} n @param {Change} change */
  #box(n, change) {
    const box = this.stage.boxes[n];
    const { x, y, width } = this.layout.places[n];
    const group = svg('g', { class: `box ${box.kind} ${change}`, 'data-box': n });
    group.append(
      svg('rect', { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT, rx: 5 }),
      svg('text', { x, y: y - 3 }, shorten(box.title)),
      svg('text', { x, y: y + 11, class: 'detail' }, shorten(box.detail)),
    );
    return group;
  }

  /** The whole drawing; a tall one is as wide as the pane allows. */
  fit() {
    const { width, height } = this.root.getBoundingClientRect();
    const whole = Math.min(width / this.layout.width, height / this.layout.height);
    this.view.scale = Math.max(SMALLEST, Math.min(1, whole));
    this.view.x = (width - this.layout.width * this.view.scale) / 2;
    this.view.y = Math.max(0, (height - this.layout.height * this.view.scale) / 2);
    this.#move();
  }

  /** Large enough to read, from the top. */
  begin() {
    this.fit();
    if (this.view.scale >= 0.6) return;
    const first = this.layout.places[this.layout.rows[0]?.[0] ?? 0];
    this.view.scale = 0.8;
    const { height } = this.root.getBoundingClientRect();
    // The first row is below the name of the stage.
    if (first) this.#centre(first.x, first.y + (height / 2 - TOP) / this.view.scale);
  }

  /** @param {number} factor @param {number} [x] @param {number} [y] the point that stays */
  zoom(factor, x, y) {
    const { width, height } = this.root.getBoundingClientRect();
    const [atX, atY] = [x ?? width / 2, y ?? height / 2];
    const scale = Math.max(SMALLEST, Math.min(LARGEST, this.view.scale * factor));
    const grown = scale / this.view.scale;
    this.view.x = atX - (atX - this.view.x) * grown;
    this.view.y = atY - (atY - this.view.y) * grown;
    this.view.scale = scale;
    this.#move();
  }

  /** @param {number} n marks a box and brings it into view; -1: none */
  show(n) {
    this.boxes[this.selected]?.classList.remove('selected');
    this.selected = n;
    for (const [i, [from, to]] of this.stage.arrows.entries())
      this.arrows[i].classList.toggle('near', from === n || to === n);
    if (n < 0) return;
    this.boxes[n].classList.add('selected');
    const { x, y } = this.layout.places[n];
    if (this.view.scale < 0.5) this.view.scale = 0.8;
    if (!this.#isInside(x, y)) this.#centre(x, y);
    else this.#move();
  }

  /** @param {Set<number> | null} matches null: nothing is searched */
  mark(matches) {
    this.root.classList.toggle('searching', matches !== null);
    for (const [n, box] of this.boxes.entries())
      box.classList.toggle('match', matches?.has(n) ?? false);
  }

  /** @param {string} key @returns {number} the box that an arrow key leads to */
  towards(key) {
    if (this.selected < 0) return this.layout.rows[0]?.[0] ?? -1;
    if (key === 'ArrowUp') return this.near.needs[this.selected][0] ?? this.selected;
    if (key === 'ArrowDown') return this.near.users[this.selected][0] ?? this.selected;
    const row = this.layout.rows.find(boxes => boxes.includes(this.selected)) ?? [];
    const at = row.indexOf(this.selected) + (key === 'ArrowLeft' ? -1 : 1);
    return row[Math.max(0, Math.min(row.length - 1, at))];
  }

  /** @param {number} x @param {number} y */
  #isInside(x, y) {
    const { width, height } = this.root.getBoundingClientRect();
    const [atX, atY] = [x * this.view.scale + this.view.x, y * this.view.scale + this.view.y];
    return atX > 40 && atX < width - 40 && atY > 30 && atY < height - 30;
  }

  /** @param {number} x @param {number} y */
  #centre(x, y) {
    const { width, height } = this.root.getBoundingClientRect();
    this.view.x = width / 2 - x * this.view.scale;
    this.view.y = height / 2 - y * this.view.scale;
    this.#move();
  }

  #move() {
    const { x, y, scale } = this.view;
    this.moved.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
  }

  #listen() {
    const root = /** @type {SVGElement & HTMLElement} */ (/** @type {unknown} */ (this.root));
    root.addEventListener(
      'wheel',
      event => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    root.addEventListener('keydown', event => this.#key(event));
    this.#listenToPointers(root);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key.startsWith('Arrow')) this.select(this, this.towards(event.key));
    else if (event.key === '+' || event.key === '=') this.zoom(1.25);
    else if (event.key === '-') this.zoom(0.8);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
  }

  /** One pointer moves the drawing, two make it larger. @param {HTMLElement} root */
  #listenToPointers(root) {
    /** @type {Map<number, { x: number, y: number }>} */
    const pointers = new Map();
    let travelled = 0;
    root.addEventListener('pointerdown', event => {
      pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      travelled = 0;
    });
    root.addEventListener('pointermove', event => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const now = { x: event.offsetX, y: event.offsetY };
      travelled += Math.hypot(now.x - last.x, now.y - last.y);
      if (travelled > CLICK && !root.hasPointerCapture(event.pointerId))
        root.setPointerCapture(event.pointerId);
      this.#drag(pointers, event.pointerId, last, now);
      pointers.set(event.pointerId, now);
    });
    for (const kind of /** @type {const} */ (['pointerup', 'pointercancel']))
      root.addEventListener(kind, event => pointers.delete(event.pointerId));
    root.addEventListener('click', event => {
      const group = /** @type {Element} */ (event.target).closest('[data-box]');
      if (group && travelled <= CLICK) this.select(this, Number(group.getAttribute('data-box')));
    });
  }

  /**
   * @param {Map<number, { x: number, y: number }>} pointers @param {number} id
   * @param {{ x: number, y: number }} last @param {{ x: number, y: number }} now
   */
  #drag(pointers, id, last, now) {
    const other = [...pointers].find(([pointer]) => pointer !== id)?.[1];
    if (other) {
      const before = Math.hypot(last.x - other.x, last.y - other.y);
      const after = Math.hypot(now.x - other.x, now.y - other.y);
      if (before) this.zoom(after / before, other.x, other.y);
      return;
    }
    this.view.x += now.x - last.x;
    this.view.y += now.y - last.y;
    this.#move();
  }
}
