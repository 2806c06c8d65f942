// For models of one number that give one number: the curve they have learned, over the data.

const CURVE_POINTS = 200;
const MOST_DOTS = 400;

/** The names of input and output if an entry is such a model, for any number of rows. */
function curvePorts(entry) {
  const { inputs, outputs, rows } = plan.entries[entry];
  const isNumber = (kind, key, row) =>
    isFloat(tensorOf(entry, kind, key)) && elementCount(row) === 1;
  const [x, ...moreInputs] = Object.keys(inputs);
  const [y, ...moreOutputs] = Object.keys(outputs);
  if (!x || !y || moreInputs.length || moreOutputs.length || rows?.outputs?.[y] !== 'rows') return;
  const isCurve =
    isNumber('inputs', x, inputRow(entry, x)) && isNumber('outputs', y, outputRow(entry, y));
  return isCurve ? { x, y } : undefined;
}

async function drawPredictionCurve(entry, { x, y }) {
  const { low, high } = columnRange(entry, x, 0);
  const xs = Float32Array.from(
    { length: CURVE_POINTS },
    (_, i) => low + ((high - low) * i) / (CURVE_POINTS - 1),
  );
  const found = await page.model.call(entry, { [x]: xs });
  const line = Array.from(found[y], (value, i) => [xs[i], value]);
  $('curve').hidden = false;
  plot($('curve'), [line], { dots: dataDots(x) });
}

/** Rows of the data as points, if it has one number for each x. */
function dataDots(x) {
  const arrays = arraysOf(page.data?.train);
  const isNumber = key =>
    isFloat(tensorOf(trainer, 'inputs', key)) && elementCount(inputRow(trainer, key)) === 1;
  const keys = trainer ? Object.keys(plan.entries[trainer].inputs) : [];
  const [y, ...more] = keys.filter(key => key !== x && hasRows(trainer, key));
  if (!y || more.length || !arrays?.[x] || !isNumber(y)) return [];
  const jump = Math.ceil(arrays[x].length / MOST_DOTS);
  const dots = [];
  for (let i = 0; i < arrays[x].length; i += jump)
    dots.push([rawNumber(x, arrays[x][i], 0), rawNumber(y, arrays[y][i], 0)]);
  return dots;
}
