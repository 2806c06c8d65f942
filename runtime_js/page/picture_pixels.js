// Pictures as the numbers of a row, and back.

import { Averaged } from '../data/resize.js';
import { rowsInData } from './examples.js';
import { page } from './state.js';

/** @import { Input, Picture } from './ports.js' */
/**
 * @typedef {{low: number, high: number, isDark: boolean}} Look what black and white are in the
 *   pictures of the data, and whether their ground is dark, as in many data sets of handwriting
 */

/** A canvas element's pixels are bytes. */
const WHITE = 255;
/** Data with larger numbers than this is taken to use all bytes. */
const SOME_BYTES = 127;

/** @param {Input} input @returns {Look} */
export function lookOf(input) {
  const { isFloat, prepared, size } = input;
  const usual = { low: 0, high: isFloat ? 1 : WHITE, isDark: false };
  const list = page.data?.isInvented ? undefined : rowsInData(input);
  if (!list) return usual;
  const sample = Array.from(list.subarray(0, Math.min(list.length, 2 ** 18)));
  const low = sample.reduce((least, value) => Math.min(least, value), 0);
  const most = sample.reduce((largest, value) => Math.max(largest, value), low);
  const isWhole = prepared || (!isFloat && most > SOME_BYTES);
  const high = isWhole ? usual.high : most || usual.high;
  const corners = sample.filter((_, i) => i % size === 0 && i + size <= sample.length);
  const corner = corners.reduce((sum, value) => sum + value, 0) / Math.max(1, corners.length);
  return { low, high, isDark: corner < (low + high) / 2 };
}

/** The row of an averaged picture, in the numbers of the data. @param {Averaged} averaged @param {Input} input @param {Look} look */
export function rowOfAveraged(averaged, { size, isFloat }, { low, high }) {
  const shares = new Float32Array(size);
  averaged.write(shares, 0, WHITE);
  const values = Array.from(shares, share => low + share * (high - low));
  return isFloat ? values : values.map(value => Math.floor(value + 0.5));
}

/** @param {ArrayLike<number>} row @param {Picture} picture @param {{low: number, high: number}} look */
export function pixelsOfRow(row, { layout, channels, height, width }, { low, high }) {
  const image = new ImageData(width, height);
  const byteAt = (/** @type {number} */ c, /** @type {number} */ i) => {
    const value = row[layout === 'hwc' ? i * channels + c : c * height * width + i];
    return (WHITE * (value - low)) / (high - low || 1);
  };
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = byteAt(channels > 1 ? c : 0, i);
    image.data[4 * i + 3] = channels === 4 ? byteAt(3, i) : WHITE;
  }
  return image;
}

/** All pixels of a canvas, averaged to as many as the input has. @param {ImageData} image @param {Picture} picture */
export function averagedPixels({ data, width, height }, picture) {
  const averaged = new Averaged(width, height, averagedLayout(picture));
  for (let y = 0; y < height; y++)
    averaged.addRow(y, data.subarray(4 * y * width, 4 * (y + 1) * width));
  return averaged;
}
/** @param {Picture} picture */
export const averagedLayout = ({ layout, ...size }) => ({ order: layout, ...size });
