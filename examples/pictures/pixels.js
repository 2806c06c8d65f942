// Pictures as the model takes them: SIDE × SIDE dots of red, green and blue from 0 to 1.

import { plan } from '../../runtime_js/page/bundle.js';

const [, SIDE] = plan.tensors[plan.entries.predict.inputs.image].shape;
export const DOTS = 3 * SIDE * SIDE;
/** Pixels by which examples are moved, so that the place of a thing matters less. */
const SHIFT = 3;

/** On its way to the model, every picture is drawn here: a new canvas for each would be slow to get. */
const small = new OffscreenCanvas(SIDE, SIDE).getContext('2d', { willReadFrequently: true });
small.imageSmoothingQuality = 'high';

/** The middle square of a canvas, video or picture. */
export function pixelsOf(source) {
  const width = source.videoWidth || source.width;
  const height = source.videoHeight || source.height;
  const size = Math.min(width, height);
  small.fillStyle = '#fff';
  small.fillRect(0, 0, SIDE, SIDE);
  small.drawImage(source, (width - size) / 2, (height - size) / 2, size, size, 0, 0, SIDE, SIDE);
  const { data } = small.getImageData(0, 0, SIDE, SIDE);
  const pixels = new Float32Array(DOTS);
  for (let i = 0; i < SIDE * SIDE; i++)
    for (let colour = 0; colour < 3; colour++) pixels[3 * i + colour] = data[4 * i + colour] / 255;
  return pixels;
}

/** A small canvas that shows them. */
export function thumbnailOf(pixels) {
  const canvas = Object.assign(document.createElement('canvas'), { width: SIDE, height: SIDE });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const picture = context.createImageData(SIDE, SIDE);
  picture.data.fill(255);
  for (let i = 0; i < SIDE * SIDE; i++)
    for (let colour = 0; colour < 3; colour++)
      picture.data[4 * i + colour] = 255 * pixels[3 * i + colour];
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** Writes the picture into `moved`: shifted by a few dots, mirrored or not; the border is repeated. */
export function vary(pixels, moved) {
  const shift = () => Math.floor(Math.random() * (2 * SHIFT + 1)) - SHIFT;
  const [right, down, isMirrored] = [shift(), shift(), Math.random() < 0.5];
  const inside = place => Math.max(0, Math.min(SIDE - 1, place));
  for (let x = 0; x < SIDE; x++) {
    const fromX = inside((isMirrored ? SIDE - 1 - x : x) + right);
    for (let y = 0; y < SIDE; y++) {
      const from = 3 * (SIDE * inside(y + down) + fromX);
      const to = 3 * (SIDE * y + x);
      for (let colour = 0; colour < 3; colour++) moved[to + colour] = pixels[from + colour];
    }
  }
}
