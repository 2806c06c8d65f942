// What inputs and outputs are, in words for people: "3 numbers", "a picture of 28 × 28".

const tensorOf = (entry, kind, key) => plan.tensors[plan.entries[entry][kind][key]];
const integersIn = (entry, key) => ownOf(plan.entries[entry].ranges ?? {}, key);
const hasRows = (entry, key) => Boolean(plan.entries[entry].rows?.inputs.includes(key));
const countOf = (count, one, many = `${one}s`) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

const parameterCount = () =>
  Object.values(plan.tensors)
    .filter(({ role }) => role === 'param')
    .reduce((sum, { shape }) => sum + elementCount(shape), 0);

/** The shape of one row of an input. */
function inputRow(entry, key) {
  const { shape } = tensorOf(entry, 'inputs', key);
  return hasRows(entry, key) ? shape.slice(1) : shape;
}

/** The shape of what one row gives: an output may have a row for each row of the inputs, or one. */
function outputRow(entry, key) {
  const { shape } = tensorOf(entry, 'outputs', key);
  const { rows } = plan.entries[entry];
  if (rows?.outputs) return rows.outputs[key] === 'rows' ? shape.slice(1) : shape;
  return rows && shape.length > 1 && shape[0] === rows.count ? shape.slice(1) : shape;
}

/** How many rows arrays by input have. */
function rowCount(entry, arrays) {
  const [key] = plan.entries[entry].rows?.inputs ?? [];
  return key && arrays?.[key] ? arrays[key].length / elementCount(inputRow(entry, key)) : 1;
}

/** [channels, height, width] and the layout of a row that is a picture; undefined for others. */
function pictureOf(row) {
  const isLarge = (height, width) => height >= 4 && width >= 4;
  const [a, b, c] = row;
  if (row.length === 2 && isLarge(a, b)) return { layout: 'hw', channels: 1, height: a, width: b };
  if (row.length !== 3) return;
  if ([1, 3, 4].includes(a) && isLarge(b, c))
    return { layout: 'chw', channels: a, height: b, width: c };
  if ([1, 3, 4].includes(c) && isLarge(a, b))
    return { layout: 'hwc', channels: c, height: a, width: b };
}

/** Whether the model's vocabulary is a file of tokens, and what an id is of. */
const hasTokens = typeof plan.model.vocab === 'object';
const textUnit = hasTokens ? 'token' : 'character';

/** Whether the numbers of an input are characters or tokens of the model's vocabulary. */
function isText(entry, key) {
  const { vocab } = plan.model;
  const range = integersIn(entry, key);
  if (!vocab || !range) return false;
  const { low, high } = rangeOf(range);
  // Tables of tokens are often larger than the vocabulary, so that their sizes are round.
  return hasTokens ? low === 0 && high >= vocab.size - 1 : high === [...vocab].length - 1;
}

/** One row of an input. */
function inputWords(entry, key) {
  const row = inputRow(entry, key);
  if (isText(entry, key))
    return row.length ? `text of ${countOf(elementCount(row), textUnit)}` : `a ${textUnit}`;
  const range = integersIn(entry, key);
  const picture = pictureOf(row);
  if (isOneHot(key)) return `one of ${countOf(elementCount(row), 'class', 'classes')}`;
  if (picture && (!range || picture.channels > 1)) return pictureWords(picture);
  const isClass = range && elementCount(row) === 1;
  return isClass ? `one of ${classWords(range)}` : numberWords(row, tensorOf(entry, 'inputs', key));
}
const pictureWords = ({ channels, width, height }) =>
  `a ${channels > 1 ? 'colour picture' : 'picture'} of ${width} × ${height}`;
function classWords(range) {
  const { low, high } = rangeOf(range);
  return `${countOf(high - low + 1, 'class', 'classes')}`;
}
function numberWords(row, tensor) {
  const kind = isFloat(tensor) ? 'number' : 'whole number';
  if (elementCount(row) === 1) return `a ${kind}`;
  return row.length > 1 ? `${row.join(' × ')} ${kind}s` : `${row[0]} ${kind}s`;
}

/** A number in as few digits as a person reads. */
function shownNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  if (size >= 1e4) return Number(value.toPrecision(5)).toLocaleString('en');
  return `${+value.toPrecision(4)}`;
}

/** The names of a data set's columns that feed an input, if they are known. */
const columnNames = key => preparedInput(key)?.columns;

/** Whether an input stands for one of some names, each of its numbers for one. */
const isOneHot = key => preparedInput(key)?.kind === 'one hot';

/** The names of an input's classes, by default of the target's, if they are known. */
const preparedClasses = (key = preparation()?.target) => preparedInput(key)?.classes;

/** Names for `count` classes of an input: those of the data, or their numbers. */
function classNames(count, key) {
  const named = preparedClasses(key) ?? [];
  return Array.from({ length: count }, (_, i) => named[i] ?? `${i}`);
}

/** Whether the model tells this many classes apart. */
function isClassCount(count) {
  const inputs = trainer ? Object.keys(plan.entries[trainer].inputs) : [];
  return inputs.some(key => {
    const range = integersIn(trainer, key);
    return range && !isText(trainer, key) && rangeOf(range).high === count - 1;
  });
}

/** The name of an output: that of the data's column if it predicts one number of the data. */
function outputName(entry, key) {
  const { target } = preparation() ?? {};
  const [column, ...more] = (target && columnNames(target)) ?? [];
  const isOne =
    elementCount(outputRow(entry, key)) === 1 && isFloat(tensorOf(entry, 'outputs', key));
  const outputs = Object.keys(plan.entries[entry].outputs);
  return column && !more.length && isOne && outputs.length === 1 ? column : key;
}
