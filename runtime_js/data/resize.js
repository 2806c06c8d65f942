// Pictures of any size as the rows of an input: cropped, averaged, as colours or grey. Python does
// the same arithmetic in the same order, so that both get the same bits. Mirrors resize.py.

/** @import { Port } from './form.js' */
/**
 * @typedef {{order: 'chw' | 'hwc' | 'hw', height: number, width: number, channels: number}} Layout
 *   how a row of an input holds a picture
 * @typedef {{to: number, weight: number}[][]} Shares which new pixels each old one is a part of
 */

const CHANNELS = [1, 3, 4];
const WHITE = 255;
export const RGBA = 4;
const RGB = 3;

/** The layout of an input, if its rows have the shape of a picture. @param {Pick<Port, 'rowShape'>} port @returns {Layout | undefined} */
export function layoutOf({ rowShape }) {
  const [first, second, third] = rowShape;
  if (rowShape.length === 3 && CHANNELS.includes(first))
    return { order: 'chw', height: second, width: third, channels: first };
  if (rowShape.length === 3 && CHANNELS.includes(third))
    return { order: 'hwc', height: first, width: second, channels: third };
  if (rowShape.length === 2) return { order: 'hw', height: first, width: second, channels: 1 };
}

/** The middle part of a picture with the wanted proportions, averaged; rows come from the top. */
export class Averaged {
  #columns;
  #rows;
  /** Height x width x RGB of 0 to 255. */
  #found;
  #across;

  /** @param {number} width of the picture @param {number} height @param {Layout} layout */
  constructor(width, height, layout) {
    this.layout = layout;
    const isWide = width * layout.height > height * layout.width;
    const wide = isWide ? (height * layout.width) / layout.height : width;
    const tall = isWide ? height : (width * layout.height) / layout.width;
    this.#columns = sharesOf((width - wide) / 2, wide / layout.width, layout.width, width);
    this.#rows = sharesOf((height - tall) / 2, tall / layout.height, layout.height, height);
    this.#found = new Float64Array(layout.height * layout.width * RGB);
    this.#across = new Float64Array(layout.width * RGB);
  }

  /** @param {number} y @param {ArrayLike<number>} pixels RGBA of row y */
  addRow(y, pixels) {
    if (!this.#rows[y].length) return;
    this.#averageRow(pixels);
    const across = this.#across;
    for (const { to, weight } of this.#rows[y]) {
      const start = to * across.length;
      for (let i = 0; i < across.length; i++) this.#found[start + i] += weight * across[i];
    }
  }

  /** @param {ArrayLike<number>} pixels */
  #averageRow(pixels) {
    this.#across.fill(0);
    this.#columns.forEach((shares, x) => {
      if (!shares.length) return;
      const alpha = pixels[x * RGBA + 3];
      for (let i = 0; i < RGB; i++) {
        // On white.
        const value = (pixels[x * RGBA + i] * alpha + WHITE * (WHITE - alpha)) / WHITE;
        for (const { to, weight } of shares) this.#across[to * RGB + i] += weight * value;
      }
    });
  }

  /**
   * Writes the picture as a row of the input.
   * @param {Float32Array | Int32Array} array @param {number} start @param {number} scale
   */
  write(array, start, scale) {
    const { order, height, width, channels } = this.layout;
    const area = height * width;
    const isFloat = array instanceof Float32Array;
    for (let at = 0; at < area; at++)
      for (let channel = 0; channel < channels; channel++) {
        const to = order === 'chw' ? channel * area + at : at * channels + channel;
        const value = this.#valueAt(at, channel) / scale;
        array[start + to] = isFloat ? value : Math.floor(value + 0.5);
      }
  }

  /** @param {number} at @param {number} channel */
  #valueAt(at, channel) {
    const [red, green, blue] = this.#found.subarray(at * RGB, at * RGB + RGB);
    if (this.layout.channels === 1) return 0.299 * red + 0.587 * green + 0.114 * blue;
    return [red, green, blue, WHITE][channel];
  }
}

/**
 * New pixel i is the average over old ones from start + i * step to start + (i + 1) * step.
 * @param {number} start @param {number} step @param {number} count of new pixels
 * @param {number} length of old ones @returns {Shares}
 */
function sharesOf(start, step, count, length) {
  /** @type {Shares} */
  const found = Array.from({ length }, () => []);
  for (let to = 0; to < count; to++) {
    const low = start + to * step;
    const high = start + (to + 1) * step;
    for (let old = Math.max(Math.trunc(low), 0); old < length; old++) {
      const overlap = Math.min(high, old + 1) - Math.max(low, old);
      if (overlap <= 0) break;
      found[old].push({ to, weight: overlap / step });
    }
  }
  return found;
}
