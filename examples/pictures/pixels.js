// Pictures as the model takes them: SIDE × SIDE dots of red, green and blue from 0 to 1.

const [, SIDE] = plan.tensors[plan.entries.predict.inputs.image].shape;
const DOTS = 3 * SIDE * SIDE;
/** Pixels by which examples are moved, so that the place of a thing matters less. */
const SHIFT = 3;

/** The middle square of a canvas, video or picture. */
function pixelsOf(source) {
  const width = source.videoWidth || source.width;
  const height = source.videoHeight || source.height;
  const size = Math.min(width, height);
  const small = new OffscreenCanvas(SIDE, SIDE);
  const context = small.getContext('2d', { willReadFrequently: true });
  context.imageSmoothingQuality = 'high';
  context.fillStyle = '#fff';
  context.fillRect(0, 0, SIDE, SIDE);
  context.drawImage(source, (width - size) / 2, (height - size) / 2, size, size, 0, 0, SIDE, SIDE);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  return Float32Array.from({ length: DOTS }, (_, i) => data[4 * Math.floor(i / 3) + (i % 3)] / 255);
}

/** A small canvas that shows them. */
function thumbnailOf(pixels) {
  const canvas = Object.assign(document.createElement('canvas'), { width: SIDE, height: SIDE });
  const context = canvas.getContext('2d');
  const picture = context.createImageData(SIDE, SIDE);
  for (let i = 0; i < SIDE * SIDE; i++)
    picture.data.set([...pixels.subarray(3 * i, 3 * i + 3).map(v => 255 * v), 255], 4 * i);
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** The picture, moved by a few dots and mirrored or not; the border is repeated. */
function varied(pixels) {
  const shift = () => Math.floor(Math.random() * (2 * SHIFT + 1)) - SHIFT;
  const [right, down, isMirrored] = [shift(), shift(), Math.random() < 0.5];
  const inside = place => Math.max(0, Math.min(SIDE - 1, place));
  const moved = new Float32Array(DOTS);
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const fromX = inside((isMirrored ? SIDE - 1 - x : x) + right);
      const from = 3 * (SIDE * inside(y + down) + fromX);
      const to = 3 * (SIDE * y + x);
      for (let colour = 0; colour < 3; colour++) moved[to + colour] = pixels[from + colour];
    }
  return moved;
}
