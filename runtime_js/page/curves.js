// What the training reports: every output that is one number, as a number and as a curve; beside it
// the same for the held-out rows.

/** Points of a curve that are kept; of older ones every second goes. */
const MOST_KEPT = 600;
const RECENT = 100;

const lossKey = trainer && (scalarsOf(trainer).includes('loss') ? 'loss' : scalarsOf(trainer)[0]);

const curves = {
  /** By output: [step, value] of each report, for the rows that train and those held out. */
  training: {},
  heldOut: {},

  add(which, step, numbers) {
    for (const [key, value] of Object.entries(numbers)) {
      const line = [...(curves[which][key] ?? []), [step, value]];
      const isLong = line.length > MOST_KEPT;
      curves[which][key] = isLong ? line.filter((_, i) => i % 2 || i > MOST_KEPT - RECENT) : line;
    }
  },
  clear() {
    curves.training = {};
    curves.heldOut = {};
  },
  /** Forgets what came after the model's step, as after a reset or a restored checkpoint. */
  cut() {
    for (const lines of [curves.training, curves.heldOut])
      for (const [key, line] of Object.entries(lines))
        lines[key] = line.filter(([step]) => step <= page.step);
  },
  show() {
    for (const key of trainer ? scalarsOf(trainer) : []) showCurve(key);
    $('legend').hidden = !curves.heldOut[lossKey]?.length;
  },
  /** The last value of an output. */
  last: (which, key) => curves[which][key]?.at(-1)?.[1],
};

function showCurve(key) {
  const lines = [curves.training[key] ?? [], curves.heldOut[key] ?? []];
  const canvas = key === lossKey ? $('plot') : curveOf(key);
  plot(canvas, lines, { log: key === lossKey });
  canvas.setAttribute('aria-label', curveWords(key, lines[0]));
  $(numberId('training', key)).textContent = numberText(key, curves.last('training', key));
  const held = $(numberId('heldOut', key));
  held.textContent = numberText(key, curves.last('heldOut', key));
  held.parentElement.hidden = !lines[1].length;
}

function curveWords(key, line) {
  const name = titleOf(key);
  const scale = key === lossKey ? ', logarithmic' : '';
  if (line.length < 2) return `${name} over steps${scale}: nothing yet`;
  const [, first] = line[0];
  const [step, last] = line.at(-1);
  return `${name} over steps${scale}: from ${numberText(key, first)} to ${numberText(key, last)} at step ${step}`;
}

const isShare = key => /^acc(uracy)?$/i.test(key);
const titleOf = key => (isShare(key) ? 'accuracy' : key);
function numberText(key, value) {
  if (value === undefined) return '–';
  return isShare(key) ? `${(100 * value).toFixed(1)} %` : shownNumber(value);
}

/** `loss` is the element of the training's loss. */
const numberId = (which, key) => {
  const name = key === lossKey ? 'loss' : `number-${key}`;
  return which === 'training' ? name : `${name}-held-out`;
};
const curveOf = key => $(`plot-${key}`);

/** Elements for each number and curve. */
function makeCurves() {
  for (const key of scalarsOf(trainer)) {
    addNumbers(key);
    if (key === lossKey) continue;
    const figure = make('figure', '', $('plots'));
    make('figcaption', titleOf(key), figure, { className: 'note' });
    make('canvas', '', figure, { id: `plot-${key}`, role: 'img' }).setAttribute('height', 110);
  }
}
/** A number of the training, and that of the held-out rows beside it. */
function addNumbers(key) {
  const place = make('div', '', $('numbers'));
  make('dt', titleOf(key), place);
  const value = make('dd', '', place);
  make('span', '–', value, { id: numberId('training', key) });
  const held = make('span', '', value, { className: 'held', hidden: true });
  make('small', 'held out ', held);
  make('span', '–', held, { id: numberId('heldOut', key) });
}
