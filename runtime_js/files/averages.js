// Moving averages in a checkpoint, taken as its parameters: `weights: 'ema'`.

import { fail } from '../core/errors.js';

/** @import { Arrays } from './safetensors.js' */

/** Whether it is no address of a file, but a name of averages. @param {any} weights */
export function isAverage(weights) {
  // The text of an array of bytes would be several times as large as the array.
  return typeof weights === 'string' && /^([^/]*\.)?ema$/.test(weights);
}

/**
 * The same tensors, but with averages where parameters have one. `weights` is `ema`, or `NAME.ema`
 * for the averages of the optimizer of that name.
 * @param {Arrays} tensors @param {string} weights @returns {Arrays}
 */
export function withAverages(tensors, weights) {
  const [, optimizer, word] = /^(?:(.*)\.)?(.*)$/s.exec(weights) ?? [];
  if (word !== 'ema') fail('name', weights, "is not 'ema' or 'NAME.ema', of the optimizer NAME");
  /** @type {Arrays} */
  const found = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    const [, owner, parameter] = /^opt\/([^/]*)\/ema\/(.*)$/s.exec(name) ?? [];
    if (!parameter || (optimizer && owner !== optimizer)) continue;
    if (Object.hasOwn(found, parameter))
      fail('name', parameter, `has several averages; choose one: {weights: '${owner}.ema'}`);
    found[parameter] = tensor;
  }
  if (!Object.keys(found).length) fail('weights', weights, 'is not in the checkpoint');
  return { ...tensors, ...found };
}
