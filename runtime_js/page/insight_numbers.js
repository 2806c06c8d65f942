// How good predictions are, as numbers: of classes how often they are right and what is taken for
// what, of numbers their errors in the column's own units. It knows neither models nor elements.

/** Of a normal distribution: 95 % lie within so many deviations. */
const Z = 1.96;

/**
 * Wilson's interval: where the share would probably lie on many more rows like these.
 * @param {number} right @param {number} count @returns {[number, number]}
 */
export function shareInterval(right, count) {
  const share = right / count;
  const middle = (share + (Z * Z) / (2 * count)) / (1 + (Z * Z) / count);
  const spread = Z * Math.sqrt((share * (1 - share) + (Z * Z) / (4 * count)) / count);
  const half = spread / (1 + (Z * Z) / count);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** Rows by what they are, columns by what they were taken for. @param {ArrayLike<number>} truth @param {ArrayLike<number>} predicted @param {number} count of classes */
export function confusionOf(truth, predicted, count) {
  const table = Array.from({ length: count }, () => Array.from({ length: count }, () => 0));
  for (let i = 0; i < truth.length; i++) table[truth[i]][predicted[i]]++;
  return table;
}

/** The place of the largest number of each row. @param {ArrayLike<number>} scores @param {number} size of a row */
export function bestOf(scores, size) {
  return Array.from({ length: scores.length / size }, (_, row) => {
    let best = 0;
    for (let i = 1; i < size; i++) if (scores[row * size + i] > scores[row * size + best]) best = i;
    return best;
  });
}

/**
 * `r2`: the share of the variance that is explained; a model that always says the mean has 0.
 * @param {number[]} truth @param {number[]} predicted
 */
export function errorsOf(truth, predicted) {
  const mean = averageOf(truth);
  const errors = truth.map((value, i) => predicted[i] - value);
  const squares = averageOf(errors.map(error => error * error));
  const variance = averageOf(truth.map(value => (value - mean) ** 2));
  return {
    r2: variance ? 1 - squares / variance : Number.NaN,
    absolute: averageOf(errors.map(Math.abs)),
    root: Math.sqrt(squares),
  };
}

/** @param {number[]} values */
export const averageOf = values => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The rows with the largest numbers, the largest first. @param {number[]} values @param {number} count */
export const largest = (values, count) =>
  values
    .map((_, row) => row)
    .sort((a, b) => values[b] - values[a] || a - b)
    .slice(0, count);

/**
 * The rows with some of their numbers exchanged between rows: each row gets those of the row that
 * `order` names.
 * @param {ArrayLike<number>} list @param {number} size of a row @param {[number, number]} range the
 *   first place of a row that is exchanged, and the one after the last @param {number[]} order
 */
export function exchanged(list, size, [start, end], order) {
  const copy = Float32Array.from(list);
  order.forEach((from, row) => {
    for (let i = start; i < end; i++) copy[row * size + i] = list[from * size + i];
  });
  return copy;
}
