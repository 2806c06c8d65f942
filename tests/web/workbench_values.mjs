// What the tab Inside makes of captured values, as JSON: maps and dead units of pictures, attention, weights.
import { mapsOf } from '../../runtime_js/workbench/pictures.js';
import { arePictures, deadUnits } from '../../runtime_js/workbench/recording.js';
import { answer } from './browser.mjs';

/** Values that count up, but 0 where the index of the axis is 1. */
function recordedOf(name, shape, axis) {
  const inner = shape.slice(axis + 1).reduce((product, length) => product * length, 1);
  const size = shape.reduce((product, length) => product * length, 1);
  const values = Float32Array.from({ length: size }, (_, i) =>
    Math.floor(i / inner) % shape[axis] === 1 ? 0 : i + 1,
  );
  return { records: [], values, shape, areChannelsLast: arePictures(name, shape) };
}

const seen = {};
for (const [name, shape, axis] of [
  ['conv.y', [2, 4, 4, 3], 3],
  ['attn.weights', [2, 3, 3, 3], 1],
  ['attn.y', [2, 3, 4, 5], 1],
  ['conv.w', [3, 3, 2, 4], 3],
  ['h', [2, 4], 1],
]) {
  const one = recordedOf(name, shape, axis);
  seen[name] = { ...mapsOf(one, 1), ...deadUnits(one) };
}
answer(seen);
