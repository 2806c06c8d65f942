// Rows of the data as inputs to try: what a person reads, so scaling of the data is undone.

/** Rows that are looked at to find how large the numbers of a column are. */
const MOST_SAMPLED = 2000;
/** The range of numbers of which nothing is known. */
const USUAL_RANGE = { low: -3, high: 3 };

const arraysOf = data => data?.arrays ?? data;
/** How the data was prepared; null if it was not. */
const preparation = () => page.data?.train?.preparation ?? page.model?.preparation ?? null;
const preparedInput = key => ownOf(preparation()?.inputs ?? {}, key);

/** A number of a column as it is in a person's file. */
function rawNumber(key, value, i) {
  const { mean, deviation } = preparedInput(key) ?? {};
  return mean ? value * (deviation[i % mean.length] || 1) + mean[i % mean.length] : value;
}

/** Whether the data has rows for an input of an entry. */
function isInData(entry, key) {
  return Boolean(
    arraysOf(page.data?.train)?.[key] &&
      trainer &&
      hasRows(trainer, key) &&
      `${inputRow(entry, key)}` === `${inputRow(trainer, key)}`,
  );
}
const tryArrays = () => arraysOf(page.data?.heldOut) ?? arraysOf(page.data?.train);

/**
 * One row by input, from the data or generated; `target` is what the data says it belongs to,
 * undefined if that is not known.
 */
function exampleOf(entry, seed) {
  const keys = Object.keys(plan.entries[entry].inputs);
  const isKnown = keys.some(key => isInData(entry, key));
  const arrays = isKnown ? tryArrays() : undefined;
  const row = arrays ? Math.floor(randomUnits(seed, 'row', 1)[0] * rowCount(trainer, arrays)) : 0;
  const invented = generated(entry, seed, 1);
  const rowOf = (key, list, at) => {
    const size = elementCount(inputRow(entry, key));
    return Array.from(list.slice(at * size, (at + 1) * size));
  };
  const rows = keys.map(key => {
    const isKnown = arrays && isInData(entry, key);
    const numbers = isKnown ? rowOf(key, arrays[key], row) : rowOf(key, invented[key], 0);
    return [key, numbers.map((v, i) => rawNumber(key, v, i))];
  });
  return { rows: Object.fromEntries(rows), target: arrays && targetAt(entry, arrays, row) };
}

/** What the data says about a row: the one number of an input that the entry does not take. */
function targetAt(entry, arrays, row) {
  const isTarget = key => hasRows(trainer, key) && elementCount(inputRow(trainer, key)) === 1;
  const keys = Object.keys(plan.entries[trainer].inputs).filter(isTarget);
  const [key, ...more] = keys.filter(name => !ownOf(plan.entries[entry].inputs, name));
  if (!key || more.length) return;
  const value = arrays[key][row];
  const range = integersIn(trainer, key);
  if (!range) return `${columnNames(key)?.[0] ?? key} = ${shownNumber(rawNumber(key, value, 0))}`;
  return classNames(rangeOf(range).high + 1)[value];
}

/** The least and largest number in a column of an input: position `i` of its rows. */
function columnRange(entry, key, i) {
  const list = isInData(entry, key) && arraysOf(page.data.train)[key];
  const { low: least, high: most } = USUAL_RANGE;
  if (!list) return { low: rawNumber(key, least, i), high: rawNumber(key, most, i) };
  const size = elementCount(inputRow(entry, key));
  const rows = list.length / size;
  const jump = Math.ceil(rows / MOST_SAMPLED);
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < rows; row += jump) {
    const value = list[row * size + i];
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(low < high)) return { low: rawNumber(key, low - 1, i), high: rawNumber(key, low + 1, i) };
  return { low: rawNumber(key, low, i), high: rawNumber(key, high, i) };
}
