// What an entry returned for one row: a number, a class, bars, a picture, text or a curve.

/** A list up to this length is shown as bars. */
const MOST_BARS = 16;

/** `found`: arrays by output, of which the first row is shown. */
function showOutputs(entry, found, parent) {
  parent.replaceChildren();
  const keys = Object.keys(found);
  for (const key of keys) {
    const box = make('div', '', parent, { className: 'output' });
    if (keys.length > 1) make('h3', key, box);
    const row = outputRow(entry, key);
    showOutput(entry, key, found[key].slice(0, elementCount(row)), box);
  }
}

function showOutput(entry, key, list, box) {
  const row = outputRow(entry, key);
  const picture = pictureOf(row);
  const size = elementCount(row);
  if (size === 1) make('p', oneText(entry, key, list[0]), box, { className: 'answer' });
  else if (isClassCount(size)) showClasses(list, box);
  else if (isTextOutput(entry, key))
    make('p', textOfIds(Array.from(list)), box, { className: 'written' });
  else if (picture) showPicture(list, picture, box);
  else if (size <= MOST_BARS) showBars(Array.from(list), list.length, box);
  else showLine(key, list, box);
}

/** Whole numbers of a model with a vocabulary are text, unless they count something. */
const isTextOutput = (entry, key) =>
  Boolean(plan.model.vocab) &&
  !isFloat(tensorOf(entry, 'outputs', key)) &&
  Object.keys(plan.entries[entry].inputs).some(name => isText(entry, name));

function oneText(entry, key, value) {
  const tensor = tensorOf(entry, 'outputs', key);
  if (isTextOutput(entry, key)) return textOfIds([value]) || `${value}`;
  if (isFloat(tensor)) return `${outputName(entry, key)} = ${shownNumber(value)}`;
  const names = preparedClasses();
  return names?.[value] ?? `${key} = ${value}`;
}

const className = i => preparedClasses()?.[i] ?? `class ${i}`;
const areShares = list =>
  list.every(v => v >= 0 && v <= 1.0001) && Math.abs(list.reduce((a, b) => a + b, 0) - 1) < 0.01;

/** The best class, then a bar for each, the largest ones if there are many. */
function showClasses(list, box) {
  const values = Array.from(list);
  const best = values.indexOf(Math.max(...values));
  const isShare = areShares(values);
  const sure = isShare ? ` · ${(100 * values[best]).toFixed(1)} %` : '';
  make('p', `${className(best)}${sure}`, box, { className: 'answer' });
  showBars(values, best, box, classNames(list.length), isShare);
}
function showBars(values, best, box, names, isShare) {
  const most = isShare ? 1 : Math.max(...values.map(Math.abs), 1e-9);
  const order = values.map((_, i) => i);
  if (values.length > MOST_BARS) order.sort((a, b) => values[b] - values[a]).splice(MOST_BARS);
  const list = make('div', '', box, { className: 'bars' });
  for (const i of order) {
    const bar = make('div', '', list, { className: i === best ? 'bar best' : 'bar' });
    make('span', names?.[i] ?? i, bar, { title: names?.[i] ?? '' });
    const track = make('span', '', bar, { className: 'track' });
    make('i', '', track).style.width = `${(100 * Math.abs(values[i])) / most}%`;
    make('span', isShare ? `${(100 * values[i]).toFixed(1)} %` : shownNumber(values[i]), bar);
  }
}

function showPicture(list, picture, box) {
  const { width, height } = picture;
  const canvas = make('canvas', '', box, { className: 'seen large', width, height, role: 'img' });
  const low = list.reduce((a, b) => Math.min(a, b), 0);
  const high = list.reduce((a, b) => Math.max(a, b), low);
  canvas.setAttribute(
    'aria-label',
    `picture: ${shownNumber(low)} is black, ${shownNumber(high)} white`,
  );
  canvas.getContext('2d').putImageData(pixelsOfRow(list, picture, { low, high }), 0, 0);
}
function showLine(key, list, box) {
  const canvas = make('canvas', '', box, { role: 'img' });
  canvas.setAttribute('height', 160);
  canvas.setAttribute('aria-label', `${key}: ${list.length} numbers`);
  plot(canvas, [Array.from(list, (value, i) => [i, value])]);
}
