// Ends a text before the first of some words.

/**
 * The text up to the first stop, piece by piece. What may be the beginning of one is kept back.
 * @param {AsyncIterable<string>} pieces @param {string[]} stops
 * @returns {AsyncGenerator<string, void, void>}
 */
export async function* untilStop(pieces, stops) {
  let kept = '';
  for await (const piece of pieces) {
    kept += piece;
    const ends = stops.map(stop => kept.indexOf(stop)).filter(at => at >= 0);
    if (ends.length) {
      const text = kept.slice(0, Math.min(...ends));
      if (text) yield text;
      return;
    }
    const sure = kept.length - longestBeginning(kept, stops);
    if (sure > 0) yield kept.slice(0, sure);
    kept = kept.slice(sure);
  }
  if (kept) yield kept;
}

/** How much of the end of a text begins a stop. @param {string} text @param {string[]} stops */
function longestBeginning(text, stops) {
  const lengths = stops.map(stop => {
    for (let length = Math.min(stop.length - 1, text.length); length > 0; length--)
      if (text.endsWith(stop.slice(0, length))) return length;
    return 0;
  });
  return Math.max(0, ...lengths);
}
