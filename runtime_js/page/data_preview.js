// What a file holds, in the card of the data: its first rows with what each column is used for, its
// first pictures, or the beginning of its text.

/** More columns, pictures or characters are not shown. */
const MOST_COLUMNS = 20;
const MOST_PICTURES = 12;
const MOST_LETTERS = 400;
const THUMBNAIL = 144;
/** Rows of the data of a page that are shown. */
const BUILT_ROWS = 6;

/**
 * The first rows. `uses`: the input of each column, '' for none; `choose(column, input)`, if columns
 * can be chosen, is called when a person changes one.
 */
function showRows({ columns, rows, count }, uses, choose) {
  const shown = shownColumns(columns, uses);
  const table = make('table', '', emptied($('preview')));
  const more = columns.length - shown.length;
  const hidden = more ? `; ${countOf(more, 'more column')} not shown` : '';
  make('caption', `The first ${rows.length} of ${countOf(count, 'row')}${hidden}`, table);
  const head = make('tr', '', make('thead', '', table));
  for (const i of shown)
    showColumn(columns[i], uses[i], head, choose && (input => choose(i, input)));
  const body = make('tbody', '', table);
  for (const cells of rows) {
    const row = make('tr', '', body);
    for (const i of shown)
      make('td', cells[i], row, { className: uses[i] ? '' : 'unused', title: cells[i] });
  }
  $('preview').hidden = false;
}

/** The first ones, the last one, and those that are learned. */
function shownColumns(columns, uses) {
  const all = columns.map((_, i) => i);
  const isLearned = i => uses[i] && uses[i] === learnedInput;
  const others = all.slice(MOST_COLUMNS).filter(i => isLearned(i) || i === columns.length - 1);
  return [...all.slice(0, MOST_COLUMNS - others.length), ...others];
}

function showColumn({ name, kind }, use, head, choose) {
  const cell = make('th', name, head, { title: `${name}: ${kind}`, scope: 'col' });
  cell.className = use ? '' : 'unused';
  if (kind === 'empty' || !choose) return;
  const select = make('select', '', cell, { ariaLabel: `what ${name} is used for` });
  make('option', 'not used', select, { value: '' });
  for (const key of rowInputs) {
    const text = key === learnedInput ? `to learn: ${key}` : `feeds ${key}`;
    make('option', text, select, { value: key });
  }
  select.value = use;
  select.onchange = () => choose(select.value);
}

function emptied(element) {
  element.replaceChildren();
  return element;
}

async function showPictures(files, names) {
  const placeOf = ({ path }) => path.join('/');
  const sorted = [...files].sort((a, b) => placeOf(a).localeCompare(placeOf(b)));
  const box = make('div', '', emptied($('preview')), { className: 'pictures' });
  const step = Math.max(1, Math.ceil(files.length / MOST_PICTURES));
  for (const [i, file] of sorted.entries()) {
    if (i % step) continue;
    const figure = make('figure', '', box);
    const canvas = make('canvas', '', figure, { width: THUMBNAIL, height: THUMBNAIL });
    drawCovering(canvas, await createImageBitmap(new Blob([await file.bytes()])));
    make('figcaption', names(file), figure);
  }
  $('preview').hidden = false;
}

/** The middle of a picture, as large as the canvas. */
function drawCovering(canvas, picture) {
  const { width, height } = picture;
  const size = Math.min(width, height);
  const [left, top] = [(width - size) / 2, (height - size) / 2];
  canvas
    .getContext('2d')
    .drawImage(picture, left, top, size, size, 0, 0, canvas.width, canvas.height);
  picture.close();
}

/** The beginning of a text. */
function showText(text) {
  make('pre', `${text} …`, emptied($('preview')));
  $('preview').hidden = false;
}

/** Adds a text in which names are between backticks. */
function putWithCode(element, text) {
  text.split('`').forEach((part, i) => {
    if (i % 2) make('code', part, element);
    else element.append(part);
  });
}

/** The first rows of prepared arrays, as they were in the file; null if that was no table. */
function previewOfArrays({ arrays, preparation, rows }) {
  const columns = Object.entries(preparation?.inputs ?? {}).flatMap(([input, spec]) =>
    (spec.columns ?? []).map((name, at) => ({ name, input, at, spec })),
  );
  if (!columns.length) return null;
  const shown = Array.from({ length: Math.min(rows, BUILT_ROWS) }, (_, row) =>
    columns.map(column => cellOfArray(arrays[column.input], rows, row, column)),
  );
  return { columns, rows: shown, count: rows };
}
function cellOfArray(list, rows, row, { at, spec }) {
  const size = list.length / rows;
  const cells = list.subarray(row * size, (row + 1) * size);
  if (spec.kind === 'one hot') return spec.classes[cells.indexOf(1)];
  if (spec.kind === 'classes') return spec.classes[cells[0]] ?? `${cells[0]}`;
  const [mean, deviation] = [spec.mean?.[at] ?? 0, spec.deviation?.[at] || 1];
  const value = cells[at] * deviation + mean;
  // Zero, but for the rounding of scaled numbers.
  const isZero = Math.abs(value) < 1e-6 * (Math.abs(mean) + deviation);
  return shownNumber(isZero && spec.mean ? 0 : value);
}
