// Predictions for many rows at once: lines as copied from a spreadsheet, read as data files are;
// results as a table.

/** Rows of the table; more are counted. */
const MOST_LINES = 200;

/** Whether an entry takes any number of rows of numbers. */
function takesManyRows(entry) {
  const { inputs, rows } = plan.entries[entry];
  const isPlain = key =>
    hasRows(entry, key) &&
    !isText(entry, key) &&
    !isOneHot(key) &&
    elementCount(inputRow(entry, key)) <= MOST_FIELDS;
  return Boolean(rows?.outputs) && Object.keys(inputs).every(isPlain);
}

async function predictManyRows(entry) {
  const keys = Object.keys(plan.entries[entry].inputs);
  const sizes = keys.map(key => elementCount(inputRow(entry, key)));
  const lines = await pastedRows(entry);
  const starts = sizes.map((_, k) => sizes.slice(0, k).reduce((a, b) => a + b, 0));
  const arrays = keys.map((key, k) => {
    const numbers = lines.flatMap(line => line.slice(starts[k], starts[k] + sizes[k]));
    return [key, CALLER_TYPES[tensorOf(entry, 'inputs', key).dtype].from(numbers)];
  });
  showTable(entry, lines, await page.model.call(entry, Object.fromEntries(arrays)));
}

/** The text as rows of numbers; whether a comma is a decimal comma is asked if the text leaves it open. */
async function pastedRows(entry) {
  const text = $('many-text').value;
  if (!text.trim()) throw Error('There are no rows.');
  try {
    return await readPasted(text, fieldNames(entry), $('many-decimal').value || undefined);
  } catch (error) {
    if (error.option === 'decimal') $('many-decimal-choice').hidden = false;
    throw Error(adviceOf(error.message.replace('data: ', '')));
  }
}

function showTable(entry, lines, found) {
  const keys = Object.keys(found).filter(key => plan.entries[entry].rows.outputs[key] === 'rows');
  const table = make('table', '');
  const head = make('tr', '', make('thead', '', table));
  const outputs = keys.map(key => outputName(entry, key));
  for (const name of [...fieldNames(entry), ...outputs]) make('th', name, head);
  const body = make('tbody', '', table);
  lines.slice(0, MOST_LINES).forEach((line, i) => {
    const row = make('tr', '', body);
    for (const value of line) make('td', shownNumber(value), row);
    for (const key of keys) {
      const size = elementCount(outputRow(entry, key));
      const list = found[key].slice(i * size, (i + 1) * size);
      make('td', cellText(entry, key, list), row, { className: 'result' });
    }
  });
  $('many-table').replaceChildren(table);
  if (lines.length > MOST_LINES)
    make(
      'p',
      `and ${countOf(lines.length - MOST_LINES, 'more row', 'more rows')}`,
      $('many-table'),
    );
}
/** Several pictures: a table with the name of each and what the model says. */
async function predictPictures(entry, key, chosen, rows) {
  const type = CALLER_TYPES[tensorOf(entry, 'inputs', key).dtype];
  const { inputs, outputs } = plan.entries[entry];
  if (Object.keys(inputs).length > 1) throw Error('This entry takes one picture at a time.');
  const [output] = Object.keys(outputs);
  const table = make('table', '');
  const size = elementCount(outputRow(entry, output));
  for (const [i, row] of rows.entries()) {
    const found = await page.model.call(entry, { [key]: type.from(repeatedRow(entry, row)) });
    const line = make('tr', '', table);
    make('td', chosen[i].name, line);
    make('td', cellText(entry, output, found[output].slice(0, size)), line, {
      className: 'result',
    });
  }
  $('pictures-table').replaceChildren(table);
}
/** As many times as an entry of a fixed number of rows takes. */
function repeatedRow(entry, row) {
  const { rows } = plan.entries[entry];
  const count = rows && !rows.outputs ? rows.count : 1;
  return Array.from({ length: count }, () => row).flat();
}

function cellText(entry, key, list) {
  const values = Array.from(list);
  if (values.length === 1) return oneText(entry, key, values[0]).split(' = ').at(-1);
  if (!isClassCount(values.length)) return values.map(shownNumber).join(', ');
  const best = values.indexOf(Math.max(...values));
  const sure = areShares(values) ? ` (${(100 * values[best]).toFixed(0)} %)` : '';
  return `${classNames(values.length)[best]}${sure}`;
}
const fieldNames = entry =>
  Object.keys(plan.entries[entry].inputs).flatMap(key => {
    const size = elementCount(inputRow(entry, key));
    return columnNames(key) ?? Array.from({ length: size }, (_, i) => nameOf(key, i, size));
  });
