// Invented data, for a model of which only the inputs' types are known.

/** The range of integers for inputs without a range in the plan. */
const FEW = { low: 0, high: 3 };
/** The seed of the functions from the hidden point to the inputs: data of all seeds share them. */
const FUNCTION_SEED = 7;

/**
 * Rows in which every input is a smooth function of a hidden point, so that each can be learned
 * from the others. The first float input is the point itself: on a line, or in a plane if it fits.
 */
function generated(entry, seed, times) {
  const { inputs, ranges } = plan.entries[entry];
  const tensors = Object.values(inputs).map(id => plan.tensors[id]);
  const batch = tensors.find(({ shape }) => shape.length)?.shape[0] ?? 1;
  const shown = tensors.find(tensor => isFloat(tensor) && tensor.shape[0] === batch);
  const isPlane = shown?.shape.length > 1 && elementCount(shown.shape) > batch;
  const points = hiddenPoints(seed, batch * times, isPlane ? 2 : 1);
  return Object.fromEntries(
    Object.entries(inputs).map(([name, id]) => {
      const tensor = plan.tensors[id];
      const rows = tensor.shape[0] === batch ? batch * times : 1;
      const rowSize = elementCount(tensor.shape) / (rows > 1 ? batch : 1);
      const range = integersOf(tensor, ownOf(ranges, name));
      const element = elementOf({ name, tensor, rowSize, range, shown });
      const list = arrayOf(tensor, rows * rowSize, i => {
        const row = Math.floor(i / rowSize);
        return element(points[row], i % rowSize, row);
      });
      return [name, list];
    }),
  );
}

function hiddenPoints(seed, count, depth) {
  const numbers = randomUnits(seed, 'hidden', count * depth).map(unit => 2 * unit - 1);
  return Array.from({ length: count }, (_, i) => numbers.slice(i * depth, (i + 1) * depth));
}

/** How an input's elements depend on the hidden point, their position in the row, and the row. */
function elementOf({ name, tensor, rowSize, range: { low, high }, shown }) {
  if (!tensor.shape.length) return () => settingOf(name, tensor, low);
  const wave = waveOf(name, rowSize);
  if (tensor === shown) return (point, i) => (i < point.length ? 3 * point[i] : wave(point, i));
  if (isFloat(tensor)) return wave;
  const count = high - low + 1;
  // If there are only rows of integers, each row counts up, so that the next number is predictable.
  if (!shown && rowSize > 3 && tensor.dtype !== 'u8')
    return ([start], i, row) =>
      low + ((Math.floor((start + 1) * 50) + i * (1 + (row % 2))) % count);
  return (point, i) => low + Math.min(count - 1, Math.floor(((wave(point, i) + 1) / 2) * count));
}

/** One number for all rows, such as a learning rate. */
function settingOf(name, tensor, low) {
  if (!isFloat(tensor)) return low;
  return /lr|rate/.test(name) ? 0.001 : 1;
}

/** A smooth function of the point between -1 and 1, a different one for each position in a row. */
function waveOf(name, rowSize) {
  const units = randomUnits(FUNCTION_SEED, name, 3 * rowSize);
  return ([a, b], i) => {
    const [first, second, phase] = units.slice(3 * i, 3 * i + 3);
    const along = 3 * (first + 0.3) * a;
    return Math.sin(along + (b === undefined ? 0 : 3 * (second - 0.5) * b) + 6 * phase);
  };
}

function integersOf({ dtype }, declared) {
  if (declared) return rangeOf(declared);
  return dtype === 'i8' || dtype === 'u8' || dtype === 'bool' ? INTEGER_RANGES[dtype] : FEW;
}

const arrayOf = ({ dtype }, length, value) =>
  CALLER_TYPES[dtype].from({ length }, (_, i) => value(i));
