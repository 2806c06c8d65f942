// Line plots on a canvas, in the page's colours.

/** Pixels around the lines: numbers of the axes are written on the left and below. */
const MARGIN = { left: 48, right: 8, top: 12, bottom: 20 };
/** More points than pixels take long to draw. */
const MOST_POINTS = 2000;
/** Where a logarithmic axis ends, because zero has no logarithm. */
const LEAST = 1e-12;

/**
 * @typedef {[number, number]} Point x and y
 * @typedef {{context: CanvasRenderingContext2D, width: number, height: number,
 *   style: CSSStyleDeclaration}} Area
 * @typedef {{left: number, right: number, low: number, high: number}} Axes
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Point[][]} lines the first in the accent colour
 * @param {{log?: boolean, range?: Point, dots?: Point[], titles?: [string, string]}} [options]
 *   `dots` are below the lines; `log`: a logarithmic y axis; `range`: the lowest and highest y;
 *   `titles` of the x and the y axis
 */
export function plot(canvas, lines, { log = false, range, dots = [], titles } = {}) {
  const height = (/** @type {number} */ y) => (log ? Math.log10(Math.max(y, LEAST)) : y);
  const thinned = lines.map(line =>
    line.filter((_, i) => i % Math.ceil(line.length / MOST_POINTS) === 0),
  );
  const points = [...thinned.flat(), ...dots];
  const area = cleared(canvas);
  if (points.length < 2) return;
  const xs = points.map(([x]) => x);
  const ys = range ?? points.map(([, y]) => height(y));
  const axes = {
    left: Math.min(...xs),
    right: Math.max(...xs),
    low: Math.min(...ys),
    high: Math.max(...ys),
  };
  drawAxes(area, axes, log);
  if (titles) drawTitles(area, titles);
  drawDots(area, axes, dots, area.style.getPropertyValue('--warm'));
  thinned.forEach((line, i) => {
    const colour = area.style.getPropertyValue(i ? '--warm' : '--accent');
    const points = line.map(([x, y]) => /** @type {Point} */ ([x, height(y)]));
    drawLine(area, axes, points, colour);
  });
}

/**
 * Its size in the page. The attribute that says its height changes with the screen's resolution.
 * @param {HTMLCanvasElement} canvas
 */
export function areaOf(canvas) {
  canvas.dataset.height ??= canvas.getAttribute('height') ?? '150';
  return { width: canvas.clientWidth, height: +canvas.dataset.height };
}

/** The empty canvas, in the screen's resolution. @param {HTMLCanvasElement} canvas @returns {Area} */
export function cleared(canvas) {
  const scale = devicePixelRatio;
  const { width, height } = areaOf(canvas);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  canvas.style.height = `${height}px`;
  if (canvas.width !== width * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, style: getComputedStyle(canvas) };
}

/** Pixels from the left for a share of the x axis. @param {{width: number}} area @param {number} share */
export const across = ({ width }, share) =>
  MARGIN.left + share * (width - MARGIN.left - MARGIN.right);
/** Pixels from the top for a share of the y axis. @param {{height: number}} area @param {number} share */
export const down = ({ height }, share) =>
  height - MARGIN.bottom - share * (height - MARGIN.bottom - MARGIN.top);

/**
 * The inverse: the shares of the axes at a pixel.
 * @param {{width: number, height: number}} area @param {number} x @param {number} y
 */
export const sharesAt = ({ width, height }, x, y) => [
  (x - MARGIN.left) / (width - MARGIN.left - MARGIN.right),
  (height - MARGIN.bottom - y) / (height - MARGIN.bottom - MARGIN.top),
];

/** @param {Area} area @param {Axes} axes @param {boolean} log */
function drawAxes(area, { left, right, low, high }, log) {
  const { context, width, height, style } = area;
  context.font = '12px system-ui';
  context.fillStyle = style.getPropertyValue('--soft');
  context.strokeStyle = style.getPropertyValue('--line');
  for (const share of [0, 0.5, 1]) {
    const value = low + share * (high - low);
    const y = down(area, share);
    // Rounding leaves almost zero in the middle of symmetric axes.
    const shown = Math.abs(value) < 1e-3 * (high - low) ? 0 : value;
    context.fillText(shortNumber(log ? 10 ** shown : shown), 0, y + 4);
    context.beginPath();
    context.moveTo(MARGIN.left, y);
    context.lineTo(width, y);
    context.stroke();
  }
  context.fillText(shortNumber(left), MARGIN.left, height - 4);
  context.textAlign = 'right';
  if (log) context.fillText('log scale', width - 2, MARGIN.top - 2);
  context.fillText(shortNumber(right), width - 2, height - 4);
  context.textAlign = 'left';
}

/** Between the numbers of the x axis, and above the y axis. @param {Area} area @param {[string, string]} titles */
function drawTitles(area, [x, y]) {
  const { context, height } = area;
  context.textAlign = 'center';
  context.fillText(x, across(area, 0.5), height - 4);
  context.textAlign = 'left';
  context.fillText(y, MARGIN.left, MARGIN.top - 2);
}

/** @param {Area} area @param {Axes} axes @param {Point[]} line @param {string} colour */
function drawLine(area, { left, right, low, high }, line, colour) {
  const { context } = area;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineJoin = 'round';
  context.beginPath();
  for (const [x, y] of line)
    context.lineTo(
      across(area, (x - left) / (right - left || 1)),
      down(area, (y - low) / (high - low || 1)),
    );
  context.stroke();
  context.lineWidth = 1;
  if (line.length === 1) drawDots(area, { left, right, low, high }, line, colour);
}

/** @param {Area} area @param {Axes} axes @param {Point[]} dots @param {string} colour */
function drawDots(area, { left, right, low, high }, dots, colour) {
  const { context } = area;
  context.fillStyle = colour;
  for (const [x, y] of dots) {
    context.beginPath();
    const [column, row] = [(x - left) / (right - left || 1), (y - low) / (high - low || 1)];
    context.arc(across(area, column), down(area, row), 2, 0, 2 * Math.PI);
    context.fill();
  }
}

/** @param {number} value */
function shortNumber(value) {
  const size = Math.abs(value);
  const isLong = size >= 1e4 || (size > 0 && size < 1e-3);
  return isLong ? value.toExponential(0) : `${+value.toPrecision(2)}`;
}

/** A loss, for people: `0.123`, `4.30e-6`. @param {number} loss */
export const lossText = loss =>
  Math.abs(loss) < 1e-3 ? loss.toExponential(2) : loss.toPrecision(3);

/** Steps a second, for people: `1,190`, `23.4`. @param {number} perSecond */
export const speedText = perSecond =>
  (+perSecond.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 2 });
