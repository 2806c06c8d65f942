// Chooses the next id by the scores of all. Mirrors choosing.py, with the same random numbers.
// The filters are those of Hugging Face's transformers, in its order: repetition penalty,
// temperature, topK, topP, minP.

import { fail } from '../core/errors.js';
import { randomWords } from '../core/threefry.js';

/**
 * @typedef {object} Choice how to choose
 * @property {number} temperature
 * @property {number} topK those whose scores are at least the k-th largest
 * @property {number} topP of these as few of the likeliest as make up such a part of all
 * @property {number} minP of these the ones with at least such a part of the largest probability
 * @property {number} repetitionPenalty divides positive scores of ids that were read or written
 * before, and multiplies negative ones
 */

/** The second key of random numbers: the CRC-32 of `generate`. */
const GENERATE_KEY = 0xfb0663bb;
/** More than there are ids. */
const PLACES = 2 ** 21;

/**
 * @param {ArrayLike<number>} given scores before softmax @param {Choice} choice
 * @param {number} seed @param {number} step how many ids were chosen before
 * @param {number[]} before the ids that the penalty is for
 */
export function chooseId(given, choice, seed, step, before) {
  const scores = penalised(given, choice.repetitionPenalty, before);
  const ids = byScore(scores);
  if (choice.temperature === 0) return ids[0];
  const kept = ids.slice(0, countAbove(scores, ids, choice.topK));
  const best = scores[kept[0]];
  const weights = kept.map(id => Math.exp((scores[id] - best) / choice.temperature));
  let sum = 0;
  const sums = weights.map(weight => (sum += weight));
  // Weights that are small beside the others do not change the sum.
  const last = choice.topP < 1 ? sums.findIndex(total => total >= choice.topP * sum) : -1;
  const likely = weights.findIndex(weight => weight < choice.minP);
  const counts = [last, likely].map((at, i) => (at < 0 ? sums.length : at + 1 - i));
  const chosen = sums.slice(0, Math.min(...counts));
  const [word] = randomWords(seed, GENERATE_KEY, 1, step);
  const part = (word / 2 ** 32) * (chosen.at(-1) ?? 0);
  const at = chosen.findIndex(total => total > part);
  return kept[at < 0 ? chosen.length - 1 : at];
}

/** @param {ArrayLike<number>} given @param {number} penalty @param {number[]} before */
function penalised(given, penalty, before) {
  // A sum with zero has no negative zero, which would be another key.
  const scores = Float32Array.from(given, score => score + 0);
  if (penalty === 1) return scores;
  const factor = Math.fround(penalty);
  for (const id of new Set(before))
    scores[id] = scores[id] < 0 ? scores[id] * factor : scores[id] / factor;
  return scores;
}

/** Ids by falling score, the smaller of equal ones first. @param {Float32Array} scores */
function byScore(scores) {
  const words = new Uint32Array(scores.buffer);
  // Numbers are sorted ten times as fast as objects with a function that compares them.
  const keys = Float64Array.from(words, (word, id) => {
    if ((word & 0x7fffffff) > 0x7f800000) fail('not-finite', 'generate', 'the scores hold NaN');
    return (word >>> 31 ? word : 0x7fffffff - word) * PLACES + id;
  });
  return Array.from(keys.sort(), key => key % PLACES);
}

/** How many ids have at least the score of the k-th. @param {Float32Array} scores @param {number[]} ids @param {number} k */
function countAbove(scores, ids, k) {
  if (k >= ids.length) return ids.length;
  const last = scores[ids[k - 1]];
  let count = k;
  while (count < ids.length && scores[ids[count]] === last) count++;
  return count;
}
