// What a model captures while it trains: statistics of each report, and the values of the last one.

import { running } from './run_frame.js';
import { bench } from './state.js';

/**
 * @typedef {{step: number, mean: number, deviation: number, min: number, max: number, zeros: number,
 *   nan: number, count: number, histogram: ArrayLike<number>}} Record of a value at a step
 * @typedef {{records: Record[], values: any, shape: number[], areChannelsLast: boolean}} Recorded
 */

export const BINS = 32;
/** Records of a value; when there are more, every second one is dropped. */
const MOST_RECORDS = 240;
/** Elements of a stored tensor that is read while the model trains. */
const MOST_ELEMENTS = 1 << 20;

/** @param {number[]} shape */
const sizeOfShape = shape => shape.reduce((product, length) => product * length, 1);

/** By name. @type {Map<string, Recorded>} */
export const recorded = new Map();
let isReading = false;

export function openRecording() {
  bench.when('opened', () => {
    recorded.clear();
    const page = running();
    for (const happening of ['learned', 'values'])
      page?.when(happening, () => record(page).catch(() => {}));
    bench.announce('recorded');
  });
}

/** @param {any} plan @returns {string} the entry whose captures are shown: the one that trains */
function entryOf(plan) {
  const able = Object.keys(plan.entries).filter(name => plan.entries[name].captures);
  return able.find(name => plan.entries[name].training) ?? able[0] ?? '';
}

/** Names that are read: not those of tensors that take too long. @param {any} plan @param {string} entry */
function namesOf(plan, entry) {
  const sizeOf = (/** @type {string | undefined} */ id) =>
    sizeOfShape(plan.tensors[id ?? '']?.shape ?? []);
  return Object.entries(plan.entries[entry].captures)
    .filter(([, { tensor }]) => sizeOf(tensor) <= MOST_ELEMENTS)
    .map(([name]) => name);
}

/** @param {any} page */
async function record(page) {
  const { plan } = /** @type {any} */ (bench.built);
  const entry = entryOf(plan);
  if (!entry || isReading) return;
  isReading = true;
  try {
    forgetAfter(page.step);
    const captured = await page.model.captured({ entry, names: namesOf(plan, entry) });
    for (const [name, value] of Object.entries(captured)) add(name, page.step, value);
  } finally {
    isReading = false;
    bench.announce('recorded');
  }
}

/** The model went back. @param {number} step */
function forgetAfter(step) {
  for (const one of recorded.values()) one.records = one.records.filter(r => r.step <= step);
}

/** @param {string} name @param {number} step @param {any} value */
function add(name, step, value) {
  const isStatistics = value.histogram !== undefined;
  const known = recorded.get(name) ?? {
    records: [],
    values: null,
    shape: [],
    areChannelsLast: false,
  };
  const statistics = isStatistics ? value : statisticsOf(value);
  const count = sizeOfShape([...value.shape]);
  if (known.records.at(-1)?.step === step) known.records.pop();
  known.records.push({ ...statistics, step, count });
  if (known.records.length > MOST_RECORDS)
    known.records = known.records.filter((_, at) => at % 2 === 1);
  known.values = isStatistics ? null : value;
  known.shape = [...value.shape];
  known.areChannelsLast = arePictures(name, known.shape);
  recorded.set(name, known);
}

/** Whether a value is square pictures, as convolutions have them; weights of attention have heads before their squares. @param {string} name @param {number[]} shape */
export const arePictures = (name, shape) =>
  shape.length === 4 && shape[1] === shape[2] && !/(^|\.)weights/.test(name);

/** The same as the kernel of statistics computes. @param {ArrayLike<number>} values */
export function statisticsOf(values) {
  const numbers = Float64Array.from(values);
  const finite = numbers.filter(Number.isFinite);
  let [min, max, sum] = [finite[0] ?? 0, finite[0] ?? 0, 0];
  for (const x of finite) {
    sum += x;
    if (x < min) min = x;
    if (x > max) max = x;
  }
  const mean = sum / (finite.length || 1);
  const histogram = new Uint32Array(BINS);
  const width = (max - min) / BINS || 1;
  let squares = 0;
  for (const x of finite) {
    squares += (x - mean) ** 2;
    histogram[Math.min(BINS - 1, Math.floor((x - min) / width))]++;
  }
  const deviation = Math.sqrt(squares / (finite.length || 1));
  const zeros = numbers.filter(x => x === 0).length;
  const nan = numbers.filter(Number.isNaN).length;
  return { mean, deviation, min, max, zeros, nan, histogram };
}

/** Units that are 0 for every row, and how many there are; null if the value has none. @param {Recorded} one @returns {{dead: number[], count: number} | null} */
export function deadUnits({ values, shape, areChannelsLast }) {
  if (!values || shape.length < 2) return null;
  // Of attention, units are heads; weights of convolutions begin with their square.
  const hasHeads = shape.length === 4 && !areChannelsLast && shape[0] !== shape[1];
  const axis = hasHeads ? 1 : shape.length - 1;
  const count = shape[axis];
  const inner = sizeOfShape(shape.slice(axis + 1));
  const lives = new Uint8Array(count);
  for (let i = 0; i < values.length; i++)
    if (values[i] !== 0) lives[Math.floor(i / inner) % count] = 1;
  return { dead: [...lives.keys()].filter(unit => !lives[unit]), count };
}
