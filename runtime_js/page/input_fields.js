// Inputs of a few numbers: a slider and a field for each, with the name of its column. Inputs that
// are one of some classes: a list.

/** Positions of a slider. */
const SLIDER_STEPS = 200;

/** An editor has `row()`, the numbers of one row, and `set(row)`, which shows others. */
function makeFields(entry, key, parent, changed) {
  const tensor = tensorOf(entry, 'inputs', key);
  const size = elementCount(inputRow(entry, key));
  const names = columnNames(key) ?? Array.from({ length: size }, (_, i) => nameOf(key, i, size));
  const fields = names.map((name, i) =>
    makeField(name, fieldRange(entry, key, i), isFloat(tensor), parent, changed),
  );
  return {
    row: () => fields.map(field => field.value()),
    set(row) {
      for (const [i, field] of fields.entries()) field.set(row[i]);
    },
  };
}
const nameOf = (key, i, size) => (size > 1 ? `${key} ${i + 1}` : key);
function fieldRange(entry, key, i) {
  const range = integersIn(entry, key);
  if (range) return rangeOf(range);
  if (/temperature/.test(key)) return { low: 0, high: 2 };
  return columnRange(entry, key, i);
}

function makeField(name, { low, high }, isFraction, parent, changed) {
  const step = isFraction ? roundStep((high - low) / SLIDER_STEPS) : 1;
  const line = make('div', '', parent, { className: 'slider' });
  make('label', name, line, { htmlFor: `field-${name}`, title: name });
  const slider = make('input', '', line, { type: 'range', min: low, max: high, step });
  slider.setAttribute('aria-label', `${name}, slider`);
  const field = make('input', '', line, { type: 'number', step: 'any', id: `field-${name}` });
  slider.oninput = () => {
    field.value = +Number(slider.value).toPrecision(6);
    changed();
  };
  field.oninput = () => {
    slider.value = field.value;
    changed();
  };
  return {
    value: () => Number(field.value),
    set(value) {
      field.value = +value.toPrecision(6);
      slider.value = value;
    },
  };
}
/** A power of ten that is not larger. */
const roundStep = size => 10 ** Math.floor(Math.log10(size || 1));

function makeClassList(entry, key, parent, changed) {
  const { low, high } = rangeOf(integersIn(entry, key));
  const list = makeList(key, classNames(high + 1, key), low, parent, changed);
  return {
    row: () => [Number(list.value)],
    set: ([value]) => {
      list.value = value;
    },
  };
}

/** One name, which becomes a row with 1 at its place and 0 at the others. */
function makeOneHotList(entry, key, parent, changed) {
  const size = elementCount(inputRow(entry, key));
  const label = columnNames(key)?.[0] ?? key;
  const list = makeList(label, classNames(size, key), 0, parent, changed);
  return {
    row: () => Array.from({ length: size }, (_, i) => Number(i === Number(list.value))),
    set: row => {
      list.value = Array.from(row).indexOf(Math.max(...row));
    },
  };
}

/** A list of names, whose values are their numbers from `low`. */
function makeList(label, names, low, parent, changed) {
  const line = make('div', '', parent, { className: 'slider' });
  make('label', label, line, { htmlFor: `class-${label}`, title: label });
  const list = make('select', '', line, { id: `class-${label}`, onchange: changed });
  for (let value = low; value < names.length; value++)
    make('option', names[value], list, { value });
  return list;
}
