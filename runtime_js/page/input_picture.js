// Inputs that are pictures: drawn with a pointer or the keyboard, from the camera, a file or the
// clipboard, by drop. All paint on one canvas, which is then averaged to the input's pixels; those of
// a file are averaged from the file itself, as `readData` does it.

import { ownOf } from '../core/records.js';
import { averagedBitmap } from '../data/picture_files.js';
import { guarded, h, put } from './elements.js';
import { predictPictures } from './many_rows.js';
import {
  averagedLayout,
  averagedPixels,
  lookOf,
  pixelsOfRow,
  rowOfAveraged,
} from './picture_pixels.js';

/** @import { Editor } from './input_fields.js' */
/** @import { Input, Picture } from './ports.js' */
/** @typedef {[number, number]} Place on the canvas */

/** Pixels of the longer side of the canvas; a stroke has a share of them, and a pixel of the input. */
const SURFACE = 280;
const STROKE = 0.07;
/** Milliseconds between two pictures of the camera. */
const CAMERA_EVERY = 150;
const HOW_TO_DRAW =
  'picture: draw here. By keyboard: arrows move the pen, space puts it down or lifts it.';
/** @type {Record<string, Place>} */
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @param {Input} input @param {() => any} changed @returns {Editor} */
export function makePicture(input, changed) {
  const surface = new Surface(input, changed);
  const caption = h('figcaption', 'what the model sees', { className: 'note' });
  const tools = h('div', [
    h('figure', [surface.seen, caption]),
    toolRow(surface),
    h('p', 'Draw, or paste or drop a picture here.', { className: 'note' }),
  ]);
  tools.className = 'tools';
  drawByPointer(surface);
  drawByKeyboard(surface);
  return {
    elements: [h('div', [surface.canvas, tools], { className: 'picture' })],
    row: () => surface.row(),
    set: row => surface.showRow(row),
    take: blob => surface.takeBlob(blob),
    close: () => surface.stopCamera(),
  };
}

/** @param {HTMLCanvasElement} canvas */
const contextOf = canvas =>
  /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { willReadFrequently: true }));

/** What a person paints on, and beside it what the model sees. */
class Surface {
  /** The row that is shown, until it is painted on. @type {number[] | undefined} */
  exact = undefined;
  isInverted = false;
  colour = '';
  /** @type {MediaStream | null} */
  #stream = null;
  /** Counts requests for the camera; an older one that is granted late is not used. */
  #filming = 0;

  /** @param {Input} input @param {() => any} onChange */
  constructor(input, onChange) {
    this.input = input;
    this.picture = /** @type {Picture} */ (input.picture);
    this.look = lookOf(input);
    this.onChange = onChange;
    const { width, height } = this.picture;
    const scale = SURFACE / Math.max(width, height);
    const size = { width: Math.round(width * scale), height: Math.round(height * scale) };
    const shown = { role: 'img', 'aria-label': HOW_TO_DRAW };
    this.canvas = h('canvas', [], { className: 'surface', ...size, tabIndex: 0, ...shown });
    const seen = { role: 'img', 'aria-label': 'what the model sees' };
    this.seen = h('canvas', [], { className: 'seen', width, height, ...seen });
    this.context = contextOf(this.canvas);
    this.clear();
    this.#showSeen();
  }

  #showSeen() {
    contextOf(this.seen).putImageData(pixelsOfRow(this.row(), this.picture, this.look), 0, 0);
  }
  changed() {
    this.#showSeen();
    this.onChange();
  }
  get ink() {
    return this.colour || (this.look.isDark ? '#ffffff' : '#000000');
  }
  /** @param {string} colour */
  #fill(colour) {
    this.exact = undefined;
    this.context.fillStyle = colour;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }
  clear() {
    this.#fill(this.look.isDark ? '#000' : '#fff');
  }
  /** @param {Place} from @param {Place} to */
  line(from, to) {
    const { context, picture } = this;
    this.exact = undefined;
    context.strokeStyle = this.ink;
    context.lineWidth = SURFACE * Math.max(STROKE, 1 / Math.max(picture.width, picture.height));
    context.lineCap = 'round';
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
    this.changed();
  }
  /** Paints an image or video, cut to the canvas's form around its middle. @param {CanvasImageSource} image @param {number} width @param {number} height */
  paint(image, width, height) {
    const { canvas, context } = this;
    const scale = Math.max(canvas.width / width, canvas.height / height);
    const [wide, high] = [width * scale, height * scale];
    this.#fill('#fff');
    context.filter = this.isInverted ? 'invert(1)' : 'none';
    context.drawImage(image, (canvas.width - wide) / 2, (canvas.height - high) / 2, wide, high);
    context.filter = 'none';
  }
  /** White becomes black. @param {boolean} isInverted */
  invert(isInverted) {
    this.isInverted = isInverted;
    this.context.globalCompositeOperation = 'difference';
    this.#fill('#fff');
    this.context.globalCompositeOperation = 'source-over';
    this.changed();
  }
  /** @param {Blob & {name?: string}} blob */
  async takeBlob(blob) {
    this.stopCamera();
    const image = await createImageBitmap(blob, { colorSpaceConversion: 'none' }).catch(() => {
      throw Error(`${blob.name || 'this'} is not a picture that the browser can read.`);
    });
    const { input, picture, look } = this;
    this.paint(image, image.width, image.height);
    const row = rowOfAveraged(await averagedBitmap(image, averagedLayout(picture)), input, look);
    this.exact = this.isInverted ? row.map(value => look.low + look.high - value) : row;
    this.changed();
  }
  /** The first is shown; of several, a table says what the model thinks of each. @param {File[]} chosen */
  async takeFiles(chosen) {
    const rows = [];
    for (const file of [...chosen].reverse()) {
      await this.takeBlob(file);
      rows.unshift(this.row());
    }
    if (rows.length > 1) await predictPictures(this.input, chosen, rows);
  }
  /** The numbers that the model gets. */
  row() {
    const { canvas, context, picture } = this;
    if (this.exact) return this.exact;
    const whole = context.getImageData(0, 0, canvas.width, canvas.height);
    return rowOfAveraged(averagedPixels(whole, picture), this.input, this.look);
  }
  /** @param {number[]} row */
  showRow(row) {
    const { canvas, context } = this;
    this.exact = row;
    this.#showSeen();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.seen, 0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = true;
  }

  get isFilming() {
    return Boolean(this.#stream);
  }
  /** Paints what the camera sees until `stopCamera`. */
  async startCamera() {
    const mine = ++this.#filming;
    const video = { width: 320, height: 240 };
    const stream = await navigator.mediaDevices.getUserMedia({ video });
    // Somebody drew, or chose another entry, while the browser asked for permission.
    if (mine !== this.#filming) return stopTracks(stream);
    this.#stream = stream;
    await this.#film(stream).finally(() => {
      if (this.#stream === stream) this.stopCamera();
    });
  }
  /** @param {MediaStream} stream */
  async #film(stream) {
    const video = h('video', [], { srcObject: stream, muted: true, playsInline: true });
    await video.play();
    while (this.#stream === stream) {
      this.paint(video, video.videoWidth, video.videoHeight);
      this.changed();
      await new Promise(done => setTimeout(done, CAMERA_EVERY));
    }
  }
  stopCamera() {
    this.#filming++;
    if (this.#stream) stopTracks(this.#stream);
    this.#stream = null;
  }
}
/** @param {MediaStream} stream */
function stopTracks(stream) {
  for (const track of stream.getTracks()) track.stop();
}

/** @param {Surface} surface */
function drawByPointer(surface) {
  const { canvas } = surface;
  /** @type {Place | null} */
  let last = null;
  const placeAt = (/** @type {PointerEvent} */ { offsetX, offsetY }) =>
    /** @type {Place} */ ([
      (offsetX * canvas.width) / canvas.clientWidth,
      (offsetY * canvas.height) / canvas.clientHeight,
    ]);
  canvas.onpointerdown = event => {
    surface.stopCamera();
    canvas.setPointerCapture(event.pointerId);
    last = placeAt(event);
    surface.line(last, last);
  };
  canvas.onpointermove = event => {
    if (!last) return;
    const place = placeAt(event);
    surface.line(last, place);
    last = place;
  };
  canvas.onpointerup = canvas.onpointercancel = () => {
    last = null;
  };
  canvas.ondragover = event => event.preventDefault();
  canvas.ondrop = guarded(event => {
    event.preventDefault();
    return surface.takeFiles([...event.dataTransfer.files]);
  });
}

/** @param {Surface} surface */
function drawByKeyboard(surface) {
  const { canvas } = surface;
  /** @type {Place} */
  let pen = [canvas.width / 2, canvas.height / 2];
  let isDown = false;
  const inside = (/** @type {number} */ place, /** @type {number} */ size) =>
    Math.min(size, Math.max(0, place));
  canvas.onkeydown = event => {
    const [right, down] = ownOf(MOVES, event.key) ?? [0, 0];
    if (!right && !down && event.key !== ' ') return;
    event.preventDefault();
    const before = pen;
    pen = [
      inside(pen[0] + (right * SURFACE) / 20, canvas.width),
      inside(pen[1] + (down * SURFACE) / 20, canvas.height),
    ];
    if (event.key === ' ') isDown = !isDown;
    if (isDown) surface.line(before, pen);
  };
}

/** @param {Surface} surface */
function toolRow(surface) {
  const onclear = guarded(() => {
    surface.stopCamera();
    surface.clear();
    surface.changed();
  });
  const file = h('input', [], {
    type: 'file',
    id: 'picture-file',
    accept: 'image/*',
    multiple: true,
    onchange: guarded(({ target }) => surface.takeFiles([...target.files])),
  });
  const invert = h('input', [], {
    type: 'checkbox',
    id: 'picture-invert',
    onchange: () => surface.invert(invert.checked),
  });
  const pen = h('input', [], {
    type: 'color',
    value: surface.ink,
    oninput: () => {
      surface.colour = pen.value;
    },
  });
  return h(
    'div',
    [
      h('button', 'Clear', { id: 'picture-clear', onclick: onclear }),
      cameraButton(surface),
      h('label', ['File', file], { className: 'button' }),
      surface.picture.channels > 1 && h('label', ['pen', pen]),
      h('label', [invert, 'invert']),
    ],
    { className: 'row' },
  );
}

/** @param {Surface} surface */
function cameraButton(surface) {
  const onclick = guarded(async () => {
    if (surface.isFilming) return surface.stopCamera();
    if (!navigator.mediaDevices) throw Error('Browsers give pages from http no camera.');
    put(button, 'Keep this picture');
    try {
      await surface.startCamera();
    } finally {
      put(button, 'Camera');
    }
  });
  const button = h('button', 'Camera', { id: 'picture-camera', onclick });
  return button;
}
