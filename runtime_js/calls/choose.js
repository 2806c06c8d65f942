// Chooses the next id by the scores of all. Mirrors choosing.py, with the same random numbers.

import { randomWords } from '../core/threefry.js';

/** @typedef {{temperature: number, topK: number, topP: number}} Choice how to choose */

/** The second key of random numbers: the CRC-32 of `generate`. */
const GENERATE_KEY = 0xfb0663bb;

/**
 * @param {ArrayLike<number>} scores before softmax @param {Choice} choice @param {number} seed
 * @param {number} step how many ids were chosen before
 */
export function chooseId(scores, { temperature, topK, topP }, seed, step) {
  const byScore = Array.from(scores, (_, id) => id).sort((a, b) => scores[b] - scores[a] || a - b);
  if (temperature === 0) return byScore[0];
  const kept = byScore.slice(0, topK);
  const weights = kept.map(id => Math.exp((scores[id] - scores[kept[0]]) / temperature));
  const count = likeliest(weights, topP);
  const total = weights.slice(0, count).reduce((sum, weight) => sum + weight, 0);
  const [word] = randomWords(seed, GENERATE_KEY, 1, step);
  let left = (word / 2 ** 32) * total;
  const at = weights.findIndex((weight, i) => {
    left -= weight;
    return left < 0 || i === count - 1;
  });
  return kept[at];
}

/** How many of the first weights make up a part of all. @param {number[]} weights @param {number} part */
function likeliest(weights, part) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  const at = weights.findIndex(weight => {
    sum += weight;
    return sum >= part * total;
  });
  return at < 0 ? weights.length : at + 1;
}
