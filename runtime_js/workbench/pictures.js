// Drawings of captured values: histograms over steps as columns, and maps of their last two axes.

import { BINS } from './recording.js';

/** @import { Record, Recorded } from './recording.js' */

/** Rows of the drawing: values between the least and the greatest of all steps. */
const LEVELS = 32;
/** Pixels between maps, how many are drawn, and the width that they share. */
const GAP = 2;
const MOST_MAPS = 64;
const WIDTH = 640;
/** From dark to light, so that both colour schemes read it. */
const COLOURS = [
  [33, 20, 68],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];

/** One column for each record. @param {HTMLCanvasElement} canvas @param {Record[]} records */
export function drawHistograms(canvas, records) {
  const low = Math.min(...records.map(({ min }) => min));
  const high = Math.max(...records.map(({ max }) => max));
  const image = new ImageData(records.length, LEVELS);
  for (const [column, record] of records.entries()) {
    const levels = levelsOf(record, low, high);
    const most = Math.max(...levels, 1e-9);
    for (const [level, part] of levels.entries()) {
      // Small counts are seen, too.
      const pixel = (LEVELS - 1 - level) * records.length + column;
      image.data.set(colourOf(Math.sqrt(part / most)), 4 * pixel);
    }
  }
  canvas.width = records.length;
  canvas.height = LEVELS;
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  return { low, high };
}

/** The counts of a record, spread over the levels of all of them. @param {Record} record @param {number} low @param {number} high @returns {number[]} */
export function levelsOf({ min, max, histogram }, low, high) {
  const levels = new Array(LEVELS).fill(0);
  const scale = LEVELS / (high - low || 1);
  const width = ((max - min) / BINS) * scale;
  for (let bin = 0; bin < BINS; bin++) {
    const from = (min - low) * scale + bin * width;
    const last = Math.min(LEVELS - 1, Math.floor(from + width));
    for (let level = Math.min(LEVELS - 1, Math.floor(from)); level <= last; level++) {
      const overlap = Math.min(from + width, level + 1) - Math.max(from, level);
      levels[level] += histogram[bin] * (width ? overlap / width : 1);
    }
  }
  return levels;
}

/** The maps of a row of the first axis, each a list of pixels. @param {Recorded} one @param {number} row */
export function mapsOf({ values, shape, areChannelsLast }, row) {
  const [height, width] = areChannelsLast ? shape.slice(1, 3) : shape.slice(-2);
  const size = height * width;
  const hasRows = shape.length > 2;
  const start = hasRows ? (row * values.length) / shape[0] : 0;
  const count = Math.min(MOST_MAPS, hasRows ? values.length / shape[0] / size : 1);
  // From a pixel to the next, and from a map to the next.
  const [step, apart] = areChannelsLast ? [shape[3], 1] : [1, size];
  const maps = Array.from({ length: count }, (_, map) =>
    Array.from({ length: size }, (_, i) => Number(values[start + map * apart + i * step])),
  );
  return { height, width, maps };
}

/** Draws them side by side. @param {HTMLCanvasElement} canvas @param {Recorded} one @param {number} row @returns {number} of maps */
export function drawMaps(canvas, one, row) {
  const { height, width, maps } = mapsOf(one, row);
  const count = maps.length;
  const across = Math.min(count, Math.max(1, Math.ceil(Math.sqrt((count * height) / width))));
  const down = Math.ceil(count / across);
  canvas.width = across * (width + GAP) - GAP;
  canvas.height = down * (height + GAP) - GAP;
  canvas.style.width = `${Math.min(WIDTH, canvas.width * Math.max(1, Math.floor(WIDTH / 2 / canvas.width)))}px`;
  const context = canvas.getContext('2d');
  for (const [map, pixels] of maps.entries()) {
    const [x, y] = [map % across, Math.floor(map / across)];
    const picture = pictureOf(pixels, width, height);
    context?.putImageData(picture, x * (width + GAP), y * (height + GAP));
  }
  return count;
}

/** @param {ArrayLike<number>} values @param {number} width @param {number} height */
function pictureOf(values, width, height) {
  const image = new ImageData(width, height);
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    low = Math.min(low, values[i]);
    high = Math.max(high, values[i]);
  }
  for (let i = 0; i < values.length; i++)
    image.data.set(colourOf((values[i] - low) / (high - low || 1)), 4 * i);
  return image;
}

/** @param {number} part from 0 to 1 @returns {number[]} red, green, blue, opacity */
function colourOf(part) {
  const at = Math.max(0, Math.min(1, part || 0)) * (COLOURS.length - 1);
  const from = COLOURS[Math.floor(at)];
  const to = COLOURS[Math.min(COLOURS.length - 1, Math.floor(at) + 1)];
  return [...from.map((value, i) => value + (to[i] - value) * (at % 1)), 255];
}
