// Which picture files a source has, which class each belongs to, and their pixels. Mirrors
// picture_files.py.

import { WgccError } from '../core/errors.js';
import { byCodePoints } from './classes.js';
import { pause } from './pause.js';
import { Averaged } from './resize.js';

/** @import { SourceFile } from './files_given.js' */
/** @import { Layout } from './resize.js' */
/** @import { Source } from './source.js' */
/** @typedef {{file: SourceFile, label: string}} PictureFile the label is '' if nothing says it */

const SUFFIX = /\.(?:png|jpe?g|gif|webp|bmp)$/i;
const LETTERS = /^\p{L}+/u;
/** Pixels that are read from the canvas at a time: few milliseconds of work. */
const STRIP_PIXELS = 2 ** 17;

/** @param {{name: string}} file */
export function isPicture({ name }) {
  return SUFFIX.test(name);
}

/**
 * Files of a folder, of its folders, or as given; sorted, without hidden ones.
 * @param {SourceFile[]} files @param {Source} source @returns {PictureFile[]}
 */
export function findPictures(files, source) {
  const sorted = files.filter(({ path }) => !path.some(isHidden)).sort(byPath);
  const found = sorted.some(({ path }) => path.length > 1)
    ? inFolder(sorted, source)
    : sorted.map(labelled);
  if (!found.length) source.refuse('no-pictures');
  return found;
}

/** @param {string} name */
function isHidden(name) {
  return name.startsWith('.');
}

/** @param {SourceFile} a @param {SourceFile} b */
function byPath(a, b) {
  const at = a.path.findIndex((name, i) => name !== b.path[i]);
  return at < 0 ? a.path.length - b.path.length : byCodePoints(a.path[at], b.path[at] ?? '');
}

/** @param {SourceFile[]} files of a folder, whose name is first in each path @param {Source} source */
function inFolder(files, source) {
  const inside = files.filter(({ path }) => path.length === 3);
  const folders = new Set(inside.filter(isPicture).map(({ path }) => path[1]));
  const found = folders.size
    ? inside.filter(({ path }) => folders.has(path[1])).map(file => ({ file, label: file.path[1] }))
    : files.filter(({ path }) => path.length === 2).map(labelled);
  const pictures = found.filter(({ file }) => isPicture(file));
  const others = found.length - pictures.length;
  if (others) source.note('no-pictures', { count: others });
  return pictures;
}

/** By the letters that the file's name begins with. @param {SourceFile} file @returns {PictureFile} */
function labelled(file) {
  return { file, label: LETTERS.exec(file.name)?.[0] ?? '' };
}

/**
 * A picture, turned as the camera says, cropped and averaged.
 * @param {SourceFile} file @param {Layout} layout
 */
export async function readPicture(file, layout) {
  return averagedBitmap(await openPicture(file), layout);
}

/** @param {ImageBitmap} bitmap is closed @param {Layout} layout */
export async function averagedBitmap(bitmap, layout) {
  const { width, height } = bitmap;
  const averaged = new Averaged(width, height, layout);
  const rows = Math.max(1, Math.min(height, Math.floor(STRIP_PIXELS / width)));
  const canvas = new OffscreenCanvas(width, rows);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (
    canvas.getContext('2d', { willReadFrequently: true })
  );
  for (let top = 0; top < height; top += rows) {
    context.clearRect(0, 0, width, rows);
    context.drawImage(bitmap, 0, -top);
    const { data } = context.getImageData(0, 0, width, rows);
    for (let y = top; y < Math.min(height, top + rows); y++)
      averaged.addRow(y, data.subarray((y - top) * width * 4, (y - top + 1) * width * 4));
    await pause();
  }
  bitmap.close();
  return averaged;
}

/** @param {SourceFile} file */
async function openPicture(file) {
  const text =
    'createImageBitmap' in globalThis
      ? `${file.name}: this picture cannot be read`
      : 'pictures can be read in browsers only: there is no createImageBitmap here';
  try {
    const blob = new Blob([await file.bytes()]);
    return await createImageBitmap(blob, { colorSpaceConversion: 'none' });
  } catch {
    throw Object.assign(new WgccError('data', text), { field: file.name });
  }
}
