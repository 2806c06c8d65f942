// What a file holds, in the card of the data: its first rows with what each column is used for, its
// first pictures, or the beginning of its text.

import { h, put, show } from './elements.js';
import { countOf, shownNumber } from './ports.js';
import { learnedInput, rowInputs } from './state.js';

/** @import { SourceFile } from '../data/files_given.js' */
/** @import { Data } from '../data/result.js' */
/** @import { Child } from './elements.js' */
/**
 * @typedef {{name: string, kind?: string, input?: string | null}} Column
 * @typedef {{columns: Column[], rows: string[][], count: number}} Rows
 */

/** More columns, pictures or characters are not shown. */
const MOST_COLUMNS = 20;
const MOST_PICTURES = 12;
export const MOST_LETTERS = 400;
const THUMBNAIL = 144;
/** Rows of the data of a page that are shown. */
const BUILT_ROWS = 6;

/** @param {Child} content */
function drawPreview(content) {
  put('preview', content);
  show({ preview: content });
}

/**
 * The first rows.
 * @param {Rows} preview @param {string[]} uses the input of each column, '' for none
 * @param {((column: number, input: string) => any) | null} choose called when a person changes one
 */
export function drawRows({ columns, rows, count }, uses, choose) {
  const shown = shownColumns(columns, uses);
  const more = columns.length - shown.length;
  const hidden = more ? `; ${countOf(more, 'more column')} not shown` : '';
  const cellOf = (/** @type {string[]} */ cells, /** @type {number} */ i) =>
    h('td', cells[i], { className: uses[i] ? '' : 'unused', title: cells[i] });
  drawPreview(
    h('table', [
      h('caption', `The first ${rows.length} of ${countOf(count, 'row')}${hidden}`),
      h(
        'thead',
        h(
          'tr',
          shown.map(i => heading(columns[i], uses[i], choose && (use => choose(i, use)))),
        ),
      ),
      h(
        'tbody',
        rows.map(cells =>
          h(
            'tr',
            shown.map(i => cellOf(cells, i)),
          ),
        ),
      ),
    ]),
  );
}

/** The first ones, the last one, and those that are learned. @param {Column[]} columns @param {string[]} uses */
function shownColumns(columns, uses) {
  const all = columns.map((_, i) => i);
  const isLearned = (/** @type {number} */ i) => uses[i] && uses[i] === learnedInput;
  const last = all.slice(MOST_COLUMNS).filter(i => isLearned(i) || i === columns.length - 1);
  return [...all.slice(0, MOST_COLUMNS - last.length), ...last];
}

/** @param {Column} column @param {string} use @param {((input: string) => any) | null} choose */
function heading({ name, kind }, use, choose) {
  const className = use ? '' : 'unused';
  const uses = rowInputs.map(value =>
    h('option', value === learnedInput ? `to learn: ${value}` : `feeds ${value}`, { value }),
  );
  const list = h('select', [h('option', 'not used', { value: '' }), ...uses], {
    'aria-label': `what ${name} is used for`,
    onchange: () => choose?.(list.value),
  });
  list.value = use;
  const canChoose = choose && kind !== 'empty';
  return h('th', [name, canChoose && list], { title: `${name}: ${kind}`, scope: 'col', className });
}

/** @param {SourceFile[]} files @param {(file: SourceFile) => string} nameOf */
export async function drawPictures(files, nameOf) {
  const placeOf = (/** @type {SourceFile} */ { path }) => path.join('/');
  const sorted = [...files].sort((a, b) => placeOf(a).localeCompare(placeOf(b)));
  const step = Math.max(1, Math.ceil(files.length / MOST_PICTURES));
  const figures = [];
  for (const file of sorted.filter((_, i) => i % step === 0)) {
    const picture = await createImageBitmap(new Blob([await file.bytes()]));
    figures.push(h('figure', [thumbnail(picture), h('figcaption', nameOf(file))]));
  }
  drawPreview(h('div', figures, { className: 'pictures' }));
}

/** The middle of a picture. @param {ImageBitmap} picture */
function thumbnail(picture) {
  const { width, height } = picture;
  const size = Math.min(width, height);
  const [left, top] = [(width - size) / 2, (height - size) / 2];
  const canvas = h('canvas', [], { width: THUMBNAIL, height: THUMBNAIL });
  canvas
    .getContext('2d')
    ?.drawImage(picture, left, top, size, size, 0, 0, canvas.width, canvas.height);
  picture.close();
  return canvas;
}

/** The beginning of a text. @param {string} text */
export const drawText = text => drawPreview(h('pre', `${text} …`));
export const clearPreview = () => drawPreview(null);

/** The first rows of prepared arrays, as they were in the file; null if that was no table. @param {Data} data */
export function previewOfArrays({ arrays, preparation, rows }) {
  const columns = Object.entries(preparation?.inputs ?? {}).flatMap(([input, spec]) =>
    /** @type {string[]} */ (spec.columns ?? []).map((name, at) => ({ name, input, at, spec })),
  );
  if (!columns.length) return null;
  const shown = Array.from({ length: Math.min(rows, BUILT_ROWS) }, (_, row) =>
    columns.map(({ input, at, spec }) => {
      const size = arrays[input].length / rows;
      return cellOfArray(arrays[input].subarray(row * size, (row + 1) * size), at, spec);
    }),
  );
  return { columns, rows: shown, count: rows };
}

/** @param {any} cells of one row @param {number} at @param {any} spec @returns {string} */
function cellOfArray(cells, at, spec) {
  if (spec.kind === 'one hot') return spec.classes[cells.indexOf(1)];
  if (spec.kind === 'classes') return spec.classes[cells[0]] ?? `${cells[0]}`;
  const [mean, deviation] = [spec.mean?.[at] ?? 0, spec.deviation?.[at] || 1];
  const value = cells[at] * deviation + mean;
  // Zero, but for the rounding of scaled numbers.
  const isZero = Math.abs(value) < 1e-6 * (Math.abs(mean) + deviation);
  return shownNumber(isZero && spec.mean ? 0 : value);
}
