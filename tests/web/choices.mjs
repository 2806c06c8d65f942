// The ids that are chosen: node choices.mjs < cases > ids. A score that is null is NaN.
import { text } from 'node:stream/consumers';
import { chooseId } from '../../runtime_js/calls/choose.js';

const cases = JSON.parse(await text(process.stdin));
const chosen = cases.map(({ scores, before, options, seeds }) => {
  const given = Float32Array.from(scores, score => score ?? NaN);
  try {
    return Array.from({ length: seeds }, (_, seed) =>
      chooseId(given, options, seed, seed % 7, before),
    );
  } catch (error) {
    return error.code;
  }
});
process.stdout.write(JSON.stringify(chosen));
