// Line plots on a canvas, in the page's colours.

/** `lines`: lists of [x, y]; the first in the accent colour. `log`: a logarithmic y axis. `range`: [low, high] of y. */
function plot(canvas, lines, { log = false, range } = {}) {
  // More points than pixels take long to draw.
  lines = lines.map(line => line.filter((_, i) => i % Math.ceil(line.length / 2000) == 0));
  const style = getComputedStyle(canvas),
    scale = devicePixelRatio,
    width = canvas.clientWidth,
    height = +canvas.getAttribute('height');
  const context = canvas.getContext('2d'),
    y = v => (log ? Math.log10(Math.max(v, 1e-12)) : v),
    all = lines.flat();
  canvas.style.height = `${height}px`;
  if (canvas.width != width * scale) ((canvas.width = width * scale), (canvas.height = height * scale));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  if (all.length < 2) return;
  const xs = all.map(p => p[0]),
    ys = range ?? all.map(p => y(p[1])),
    [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const across = v => 48 + ((v - left) / (right - left || 1)) * (width - 56),
    up = v => height - 20 - ((y(v) - low) / (high - low || 1)) * (height - 32);
  context.font = '12px system-ui';
  context.fillStyle = style.getPropertyValue('--soft');
  context.strokeStyle = style.getPropertyValue('--line');
  const text = v => (Math.abs(v) >= 1e4 || (v && Math.abs(v) < 1e-3) ? v.toExponential(0) : `${+v.toPrecision(2)}`);
  for (const part of [0, 0.5, 1]) {
    const v = low + part * (high - low),
      at = height - 20 - part * (height - 32);
    context.fillText(text(log ? 10 ** v : v), 0, at + 4);
    context.beginPath();
    context.moveTo(48, at);
    context.lineTo(width, at);
    context.stroke();
  }
  context.fillText(text(left), 48, height - 4);
  context.textAlign = 'right';
  context.fillText(text(right), width - 2, height - 4);
  context.textAlign = 'left';
  lines.forEach((line, i) => {
    context.strokeStyle = style.getPropertyValue(i ? '--warm' : '--accent');
    context.lineWidth = 2;
    context.lineJoin = 'round';
    context.beginPath();
    for (const [a, b] of line) context.lineTo(across(a), up(b));
    context.stroke();
    context.lineWidth = 1;
  });
}
