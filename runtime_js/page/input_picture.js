// Inputs that are pictures: drawn with a pointer or the keyboard, from the camera, a file or the
// clipboard, by drop. All paint on one canvas, which is then averaged to the input's pixels; those of
// a file are averaged from the file itself, as `readData` does it.

/** Pixels of the longer side of the canvas; a stroke has a share of them, and a pixel of the input. */
const SURFACE = 280;
const STROKE = 0.07;
/** Milliseconds between two pictures of the camera. */
const CAMERA_EVERY = 150;

function makePicture(entry, key, parent, changed) {
  const picture = pictureOf(inputRow(entry, key));
  const isWhole = !isFloat(tensorOf(entry, 'inputs', key));
  const box = make('div', '', parent, { className: 'picture' });
  const surface = new Surface(box, picture, lookOf(entry, key), () => {
    seen.show();
    changed();
  });
  surface.isWhole = isWhole;
  surface.onSeveral = (chosen, rows) => predictPictures(entry, key, chosen, rows);
  const tools = make('div', '', box, { className: 'tools' });
  const seen = makeSeen(tools, surface, picture);
  addTools(tools, surface);
  return {
    row: () => surface.row(),
    set(row) {
      surface.showRow(row);
      seen.show();
    },
    take: blob => surface.takeBlob(blob),
    close: () => surface.stopCamera(),
  };
}

/** What a person paints on. */
class Surface {
  /** The row that is shown, until it is painted on. */
  exact = undefined;
  isWhole = false;
  isInverted = false;
  colour = '';
  #stream = null;
  /** Counts requests for the camera; an older one that is granted late is not used. */
  #filming = 0;

  constructor(parent, picture, look, changed) {
    const { width, height } = picture;
    const scale = SURFACE / Math.max(width, height);
    Object.assign(this, { picture, look, changed });
    this.canvas = make('canvas', '', parent, {
      className: 'surface',
      width: Math.round(width * scale),
      height: Math.round(height * scale),
      tabIndex: 0,
      role: 'img',
    });
    this.canvas.setAttribute(
      'aria-label',
      'picture: draw here. By keyboard: arrows move the pen, space puts it down or lifts it.',
    );
    this.context = this.canvas.getContext('2d', { willReadFrequently: true });
    this.clear();
    drawByPointer(this);
    drawByKeyboard(this);
  }

  get ground() {
    return this.look.isDark ? '#000' : '#fff';
  }
  get ink() {
    return this.colour || (this.look.isDark ? '#fff' : '#000');
  }
  clear() {
    this.exact = undefined;
    this.context.fillStyle = this.ground;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }
  line([fromX, fromY], [toX, toY]) {
    this.exact = undefined;
    Object.assign(this.context, {
      strokeStyle: this.ink,
      lineWidth: SURFACE * Math.max(STROKE, 1 / Math.max(this.picture.width, this.picture.height)),
      lineCap: 'round',
    });
    this.context.beginPath();
    this.context.moveTo(fromX, fromY);
    this.context.lineTo(toX, toY);
    this.context.stroke();
    this.changed();
  }
  /** Paints an image or video, cut to the canvas's form around its middle. */
  paint(image, width, height) {
    const { canvas, context } = this;
    const scale = Math.max(canvas.width / width, canvas.height / height);
    const [wide, high] = [width * scale, height * scale];
    this.exact = undefined;
    context.fillStyle = '#fff';
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.filter = this.isInverted ? 'invert(1)' : 'none';
    context.drawImage(image, (canvas.width - wide) / 2, (canvas.height - high) / 2, wide, high);
    context.filter = 'none';
  }
  /** White becomes black. */
  invert() {
    this.exact = undefined;
    this.context.globalCompositeOperation = 'difference';
    this.context.fillStyle = '#fff';
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.globalCompositeOperation = 'source-over';
    this.changed();
  }
  async takeBlob(blob) {
    this.stopCamera();
    const image = await createImageBitmap(blob, { colorSpaceConversion: 'none' }).catch(() => {
      throw Error(`${blob.name || 'this'} is not a picture that the browser can read.`);
    });
    const { picture, look } = this;
    this.paint(image, image.width, image.height);
    const averaged = await averagedBitmap(image, averagedLayout(picture));
    const row = rowOfAveraged(averaged, picture, look, this.isWhole);
    this.exact = this.isInverted ? row.map(value => look.low + look.high - value) : row;
    this.changed();
  }
  /** The first is shown; if there are several, `onSeveral` gets the row of each. */
  async takeFiles(chosen) {
    const rows = [];
    for (const file of [...chosen].reverse()) {
      await this.takeBlob(file);
      rows.unshift(this.row());
    }
    if (rows.length > 1) await this.onSeveral(chosen, rows);
  }
  /** The numbers that the model gets. */
  row() {
    const { canvas, context, picture, look, isWhole } = this;
    if (this.exact) return this.exact;
    const whole = context.getImageData(0, 0, canvas.width, canvas.height);
    return rowOfAveraged(averagedPixels(whole, picture), picture, look, isWhole);
  }
  showRow(row) {
    const { canvas, context, picture, look } = this;
    const small = new OffscreenCanvas(picture.width, picture.height);
    small.getContext('2d').putImageData(pixelsOfRow(row, picture, look), 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = true;
    this.exact = row;
  }
  /** What the model sees: as many pixels as the input has. */
  pixels() {
    return pixelsOfRow(this.row(), this.picture, this.look);
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
  async #film(stream) {
    const video = Object.assign(document.createElement('video'), {
      srcObject: stream,
      muted: true,
      playsInline: true,
    });
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
const stopTracks = stream => {
  for (const track of stream.getTracks()) track.stop();
};

function drawByPointer(surface) {
  const { canvas } = surface;
  let last = null;
  const placeAt = ({ offsetX, offsetY }) => [
    (offsetX * canvas.width) / canvas.clientWidth,
    (offsetY * canvas.height) / canvas.clientHeight,
  ];
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
}

function drawByKeyboard(surface) {
  const { canvas } = surface;
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let pen = [canvas.width / 2, canvas.height / 2];
  let isDown = false;
  canvas.onkeydown = event => {
    const move = ownOf(moves, event.key);
    if (!move && event.key !== ' ') return;
    event.preventDefault();
    const before = pen;
    const inside = (place, size) => Math.min(size, Math.max(0, place));
    if (move)
      pen = [
        inside(pen[0] + (move[0] * SURFACE) / 20, canvas.width),
        inside(pen[1] + (move[1] * SURFACE) / 20, canvas.height),
      ];
    else isDown = !isDown;
    if (isDown) surface.line(before, pen);
  };
}

/** What the model sees of the picture. */
function makeSeen(parent, surface, { width, height }) {
  const figure = make('figure', '', parent);
  const canvas = make('canvas', '', figure, { className: 'seen', width, height, role: 'img' });
  canvas.setAttribute('aria-label', 'what the model sees');
  make('figcaption', 'what the model sees', figure, { className: 'note' });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const show = () => context.putImageData(surface.pixels(), 0, 0);
  show();
  return { show };
}

function addTools(parent, surface) {
  const row = make('div', '', parent, { className: 'row' });
  make('button', 'Clear', row, {
    id: 'picture-clear',
    onclick: guarded(() => {
      surface.stopCamera();
      surface.clear();
      surface.changed();
    }),
  });
  addCameraButton(row, surface);
  const label = make('label', 'File', row, { className: 'button' });
  make('input', '', label, {
    type: 'file',
    id: 'picture-file',
    accept: 'image/*',
    multiple: true,
    onchange: guarded(({ target }) => surface.takeFiles([...target.files])),
  });
  if (surface.picture.channels > 1) addColour(row, surface);
  const invert = make('label', '', row);
  make('input', '', invert, {
    type: 'checkbox',
    id: 'picture-invert',
    onchange: ({ target }) => {
      surface.isInverted = target.checked;
      surface.invert();
    },
  });
  invert.append('invert');
  make('p', 'Draw, or paste or drop a picture here.', parent, { className: 'note' });
  acceptDrops(surface);
}
function addColour(parent, surface) {
  const label = make('label', 'pen', parent);
  make('input', '', label, {
    type: 'color',
    value: surface.ink,
    oninput: ({ target }) => {
      surface.colour = target.value;
    },
  });
}
function addCameraButton(parent, surface) {
  const button = make('button', 'Camera', parent, { id: 'picture-camera' });
  button.onclick = guarded(async () => {
    if (surface.isFilming) return surface.stopCamera();
    if (!navigator.mediaDevices) throw Error('Browsers give pages from http no camera.');
    button.textContent = 'Keep this picture';
    try {
      await surface.startCamera();
    } finally {
      button.textContent = 'Camera';
    }
  });
}
function acceptDrops(surface) {
  const { canvas } = surface;
  canvas.ondragover = event => event.preventDefault();
  canvas.ondrop = guarded(event => {
    event.preventDefault();
    return surface.takeFiles([...event.dataTransfer.files]);
  });
}
