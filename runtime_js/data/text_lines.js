// The lines of a text that comes in chunks.

/** @typedef {() => Iterable<string>} Chunks of a text */

const LINE_END = /\r\n|\r|\n/;

/** @param {Chunks} chunks @returns {Generator<string, void, void>} */
export function* linesOf(chunks) {
  let rest = '';
  for (const chunk of chunks()) {
    rest += chunk;
    // A long line is searched for its end only where it may be.
    if (!LINE_END.test(chunk)) continue;
    // The next chunk may begin with the second half of a line end.
    const isHalf = rest.endsWith('\r');
    const lines = (isHalf ? rest.slice(0, -1) : rest).split(LINE_END);
    rest = lines.pop() + (isHalf ? '\r' : '');
    yield* lines;
  }
  yield* rest.split(LINE_END);
}
