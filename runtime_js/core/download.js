// Reads what a server sends.

/** @typedef {(done: number, total: number) => void} OnBytes */

/**
 * The bytes of a response, which are counted as they come.
 * @param {Response} response @param {OnBytes} [onBytes] @returns {Promise<ArrayBuffer>}
 */
export function bytesOfBody(response, onBytes) {
  if (!onBytes || !response.body) return response.arrayBuffer();
  // Of compressed bytes, if the server compresses them: then more come.
  const total = Number(response.headers.get('content-length'));
  let done = 0;
  const counter = new TransformStream({
    transform(/** @type {Uint8Array} */ chunk, output) {
      done += chunk.length;
      onBytes(done, Math.max(done, total));
      output.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counter)).arrayBuffer();
}
