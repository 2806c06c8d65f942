// The front end of a training in a notebook: curve, numbers, and controls whose effect is shown
// when the kernel confirms it.

const WIDTH = 640;
const HEIGHT = 200;
const MARGIN = { left: 66, right: 10, top: 10, bottom: 22 };
// A kernel that is busy with the cell hears nothing; after so long the reader is told why.
const PATIENCE_MS = 3000;
const SVG = 'http://www.w3.org/2000/svg';

/** An element with properties, attributes (`aria-…`, those of SVG) and children. */
function make(tag, properties = {}, children = []) {
  const isDrawing = ['svg', 'polyline', 'line', 'text'].includes(tag);
  const element = isDrawing ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (!isDrawing && name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const short = number => (Number.isFinite(number) ? Number(number).toPrecision(4) : String(number));

/** Places of numbers in the picture; logarithmic where all losses are positive. */
function scales(series) {
  const points = series.flat();
  const isLog = points.every(([, y]) => y > 0);
  const height = y => (isLog ? Math.log10(y) : y);
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => height(y));
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const inner = [WIDTH - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  return {
    x: x => MARGIN.left + ((x - left) / (right - left || 1)) * inner[0],
    y: y => MARGIN.top + (1 - (height(y) - low) / (high - low || 1)) * inner[1],
    ends: { left, right, low: isLog ? 10 ** low : low, high: isLog ? 10 ** high : high },
  };
}

function polyline(points, scale, kind) {
  const places = points.map(([x, y]) => `${scale.x(x).toFixed(1)},${scale.y(y).toFixed(1)}`);
  return make('polyline', { class: kind, points: places.join(' ') });
}

function label(text, x, y, anchor) {
  return make('text', { x, y, 'text-anchor': anchor }, [text]);
}

function drawCurve(svg, model) {
  const isDrawn = ([, y]) => Number.isFinite(y);
  const losses = model.get('curve').filter(isDrawn);
  const evaluated = Object.values(model.get('evaluated')).map(points => points.filter(isDrawn));
  if (!losses.length) return svg.replaceChildren();
  const scale = scales([losses, ...evaluated]);
  const { left, right, low, high } = scale.ends;
  const bottom = HEIGHT - MARGIN.bottom;
  const edge = { class: 'grid', x1: MARGIN.left, x2: WIDTH - MARGIN.right };
  svg.replaceChildren(
    make('line', { ...edge, y1: MARGIN.top, y2: MARGIN.top }),
    make('line', { ...edge, y1: bottom, y2: bottom }),
    label(short(high), MARGIN.left - 6, MARGIN.top + 8, 'end'),
    label(short(low), MARGIN.left - 6, bottom, 'end'),
    label(String(left), MARGIN.left, HEIGHT - 6, 'start'),
    label(`step ${right}`, WIDTH - MARGIN.right, HEIGHT - 6, 'end'),
    polyline(losses, scale, 'loss'),
    ...evaluated.map(points => polyline(points, scale, 'eval')),
  );
}

/** `120 / 1000  loss 0.0123  2.3 ms/step  eta 00:02` */
function describe(status) {
  const total = status.steps ? ` / ${status.steps}` : '';
  const numbers = Object.entries(status.numbers ?? {}).map(([name, n]) => `${name} ${short(n)}`);
  const parts = [`${status.state}`, `${status.step ?? 0}${total}`, ...numbers, status.pace ?? ''];
  return parts.filter(Boolean).join('   ');
}

function makeControls(model, ask) {
  const toggle = make('button', { type: 'button' }, ['Pause']);
  toggle.onclick = () => ask(model.get('status').state === 'paused' ? 'resume' : 'pause');
  const step = make('button', { type: 'button', onclick: () => ask('step') }, ['Step']);
  const stop = make('button', { type: 'button', onclick: () => ask('stop') }, ['Stop']);
  const update = () => {
    const { state } = model.get('status');
    const isOver = !['running', 'paused', 'starting'].includes(state);
    toggle.textContent = state === 'paused' ? 'Resume' : 'Pause';
    for (const button of [toggle, step, stop]) button.disabled = isOver;
  };
  return { elements: [toggle, step, stop], update };
}

/** A field for each setting that is live. */
function makeSettings(model, ask) {
  const bar = make('span', { className: 'bar' });
  let shown = '';
  const update = () => {
    const settings = model.get('settings');
    if (JSON.stringify(settings) === shown) return;
    shown = JSON.stringify(settings);
    const fields = Object.entries(settings).map(([name, value]) => {
      const field = make('input', { value: String(value), inputMode: 'decimal' });
      field.setAttribute('aria-label', name);
      field.onchange = () => ask('set', { name, value: Number(field.value) });
      return make('label', {}, [`${name} `, field]);
    });
    bar.replaceChildren(...fields);
  };
  return { element: bar, update };
}

/** A histogram of 32 bars. */
function makeBars({ name, bins }) {
  const most = Math.max(1, ...bins);
  const bars = bins.map((count, i) => {
    const height = (count / most) * 40;
    return make('line', { class: 'bin', x1: 4 * i + 2, x2: 4 * i + 2, y1: 41, y2: 41 - height });
  });
  const size = { viewBox: '0 0 128 42', role: 'img', 'aria-label': `histogram of ${name}` };
  return make('svg', size, bars);
}

/** Bytes as a picture, one pixel each, which the style sheet enlarges. */
function makeMap({ name, map }) {
  const canvas = make('canvas', { width: map[0].length, height: map.length, role: 'img' });
  canvas.setAttribute('aria-label', `values of ${name}`);
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  for (const [i, shade] of map.flat().entries()) image.data.set([47, 127, 214, shade], 4 * i);
  context.putImageData(image, 0, 0);
  return canvas;
}

function makeCapture(capture) {
  const { name, shape, mean, deviation, nan } = capture;
  const facts = `[${shape.join(', ')}]  ${short(mean)} ± ${short(deviation)}`;
  const caption = make('figcaption', {}, [`${name} ${facts}${nan ? `  ${nan} NaN` : ''}`]);
  const parts = capture.map.length ? [makeMap(capture)] : [];
  return make('figure', {}, [caption, makeBars(capture), ...parts]);
}

function render({ model, el }) {
  const svg = make('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img' });
  svg.setAttribute('aria-label', 'loss over steps');
  const line = make('div', { role: 'status' });
  const note = make('div', {});
  const error = make('div', { className: 'error' });
  let waiting;
  const ask = (kind, more = {}) => {
    model.send({ kind, ...more });
    clearTimeout(waiting);
    note.textContent = `asked to ${kind} …`;
    waiting = setTimeout(() => {
      note.textContent =
        'The kernel is busy with the cell and hears this later. wgcc_runtime.notebook.train ' +
        'trains beside the kernel.';
    }, PATIENCE_MS);
  };
  const controls = makeControls(model, ask);
  const settings = makeSettings(model, ask);
  const update = () => {
    const status = model.get('status');
    line.textContent = describe(status);
    error.textContent = status.error ?? '';
    controls.update();
    settings.update();
    drawCurve(svg, model);
  };
  const confirm = () => {
    clearTimeout(waiting);
    note.textContent = '';
  };
  const bar = make('div', { className: 'bar' }, [...controls.elements, settings.element]);
  const figures = make('div', { className: 'captures' });
  const showCaptures = () => figures.replaceChildren(...model.get('captures').map(makeCapture));
  el.append(make('div', { className: 'wgcc-training' }, [svg, line, bar, note, error, figures]));
  model.on('change:captures', showCaptures);
  showCaptures();
  model.on('msg:custom', confirm);
  for (const name of ['status', 'curve', 'evaluated', 'settings']) {
    model.on(`change:${name}`, update);
  }
  update();
  return () => clearTimeout(waiting);
}

export default { render };
