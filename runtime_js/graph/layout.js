// Where boxes are drawn: in rows, each below all boxes it depends on, as the pictures of
// `wgcc show --graph svg` are.
/** @import { Box, Stage } from './data.js' */

/**
 * @typedef {{ x: number, y: number, width: number }} Place the centre of a box, and its width
 * @typedef {{ places: Place[], rows: number[][], width: number, height: number }} Layout
 */

export const HEIGHT = 36;
const CHARACTER = 6.7;
const PADDING = 14;
const ROW = 78;
const GAP = 18;
const MARGIN = 24;
// A longer text is cut; the details show all of it.
const LONGEST = 44;

/** @param {string} text */
export const shorten = text => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** @param {Stage} stage @returns {Layout} */
export function layOut(stage) {
  const rows = rowsOf(stage);
  const widths = rows.map(row => row.reduce((sum, n) => sum + widthOf(stage.boxes[n]) + GAP, 0));
  const widest = Math.max(0, ...widths);
  /** @type {Place[]} */
  const places = [];
  for (const [depth, row] of rows.entries()) {
    let x = MARGIN + (widest - widths[depth]) / 2;
    for (const n of row) {
      const width = widthOf(stage.boxes[n]);
      places[n] = { x: x + width / 2, y: MARGIN + depth * ROW + HEIGHT / 2, width };
      x += width + GAP;
    }
  }
  return { places, rows, width: widest + 2 * MARGIN, height: rows.length * ROW + 2 * MARGIN };
}

/** @param {Box} box */
function widthOf(box) {
  return Math.max(shorten(box.title).length, shorten(box.detail).length) * CHARACTER + PADDING;
}

/**
 * Each box is one row below the lowest it depends on; inputs are just above their first use. A row
 * is sorted by what its boxes depend on.
 * @param {Stage} stage @returns {number[][]}
 */
function rowsOf(stage) {
  const { needs, users } = neighbours(stage);
  /** @type {number[]} */
  const depth = [];
  for (const n of needs.keys()) depth[n] = 1 + Math.max(-1, ...needs[n].map(other => depth[other]));
  for (const [n, box] of stage.boxes.entries())
    if (box.kind === 'source' && users[n].length)
      depth[n] = Math.min(...users[n].map(user => depth[user])) - 1;
  /** @type {number[][]} */
  const rows = Array.from({ length: 1 + Math.max(-1, ...depth) }, () => []);
  for (const [n, row] of depth.entries()) rows[row].push(n);
  /** @type {number[]} */
  const order = [];
  for (const row of rows) {
    const middle = new Map(row.map(n => [n, average(needs[n].map(other => order[other]))]));
    row.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
    for (const [at, n] of row.entries()) order[n] = (at + 0.5) / row.length;
  }
  return rows;
}

/** @param {Stage} stage what each box needs, and which boxes use it */
export function neighbours(stage) {
  /** @type {number[][]} */
  const needs = stage.boxes.map(() => []);
  /** @type {number[][]} */
  const users = stage.boxes.map(() => []);
  for (const [from, to] of stage.arrows) {
    needs[to].push(from);
    users[from].push(to);
  }
  return { needs, users };
}

/** @param {number[]} numbers */
const average = numbers =>
  numbers.length ? numbers.reduce((sum, n) => sum + n, 0) / numbers.length : 0.5;
