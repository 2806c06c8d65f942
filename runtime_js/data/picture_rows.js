// Pictures that a page has (canvas, camera, ImageData, …) as the rows of an input, by the same rules
// as picture files.

import { CALLER_TYPES } from '../core/arrays.js';
import { fail } from '../core/errors.js';
import { isFloat } from '../core/plan.js';
import { averagedBitmap } from './picture_files.js';
import { Averaged, layoutOf, RGBA } from './resize.js';

/** @import { Tensor } from '../core/plan.js' */
/** @import { Layout } from './resize.js' */

/** What createImageBitmap takes, besides ImageData. */
const KINDS = [
  'HTMLCanvasElement',
  'OffscreenCanvas',
  'ImageBitmap',
  'HTMLVideoElement',
  'VideoFrame',
  'HTMLImageElement',
  'SVGImageElement',
  'Blob',
  'File',
];

/** Also those of another window. @param {any} value */
export function isPictureSource(value) {
  return isPixels(value) || KINDS.includes(value?.[Symbol.toStringTag]);
}

/** ImageData, or what looks like it. @param {any} value */
function isPixels(value) {
  const { width, height, data } = Object(value);
  return Number.isInteger(width) && data?.length === RGBA * width * height;
}

/**
 * A row for each picture, from 0 to 255, or to 1 for floats.
 * @param {any[]} pictures @param {Tensor} tensor @param {string} field
 */
export async function pictureRows(pictures, tensor, field) {
  const rowShape = tensor.shape.slice(1);
  const layout = layoutOf({ rowShape });
  if (!layout)
    return fail(
      'shape',
      field,
      `takes no pictures: rows of [${rowShape}] are not [C, H, W], [H, W, C] or [H, W]`,
    );
  const size = layout.height * layout.width * layout.channels;
  const rows = new (isFloat(tensor) ? CALLER_TYPES.f32 : CALLER_TYPES.i32)(pictures.length * size);
  for (const [i, picture] of pictures.entries())
    (await averagedPicture(picture, layout, field)).write(
      rows,
      i * size,
      isFloat(tensor) ? 255 : 1,
    );
  return Object.assign(rows, { shape: [pictures.length, ...rowShape] });
}

/** @param {any} picture @param {Layout} layout @param {string} field */
async function averagedPicture(picture, layout, field) {
  if (isPixels(picture)) return averagedPixels(picture, layout);
  const bitmap = await createImageBitmap(picture, { colorSpaceConversion: 'none' }).catch(error =>
    fail('data', field, `is a picture that cannot be read: ${error.message}`),
  );
  return averagedBitmap(bitmap, layout);
}

/** @param {ImageData} picture @param {Layout} layout */
function averagedPixels({ width, height, data }, layout) {
  const averaged = new Averaged(width, height, layout);
  for (let y = 0; y < height; y++)
    averaged.addRow(y, data.subarray(y * width * RGBA, (y + 1) * width * RGBA));
  return averaged;
}
