// Files of weights that come in pieces, sound and damaged ones; checkpoints as blobs.

const said = promise =>
  promise.then(
    () => 'fine',
    error => `${error.code}: ${error.message}`,
  );

/** An answer whose pieces end anywhere, also inside numbers; the last one may not come. */
function inPieces(bytes, { breaksAt = Infinity } = {}) {
  let at = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (at >= breaksAt) return controller.error(new Error('the line broke'));
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + 9973));
      at += 9973;
    },
  });
  return new Response(body);
}

function damaged(file) {
  const flipped = file.slice();
  flipped[file.length - 100_000] ^= 1;
  const longer = new Uint8Array(file.length + 4);
  longer.set(file);
  const header = file.slice();
  header[5] = 1;
  return { flipped, longer, header, shorter: file.slice(0, -4), short: file.slice(0, 5) };
}

/** As in a browser that has no room for blobs: what is stored in them cannot be read. */
async function withFullBrowser(act) {
  const { slice } = Blob.prototype;
  Blob.prototype.slice = () => ({ arrayBuffer: async () => Promise.reject(new Error('full')) });
  const found = await act();
  Blob.prototype.slice = slice;
  return found;
}

const equal = (a, b) => a.length === b.length && a.every((item, i) => item === b[i]);

export default async function streamed({ load, device }, { halves }) {
  const heard = [];
  const onProgress = ({ stage, done, total }) => stage === 'weights' && heard.push([done, total]);
  const model = await load({ device, onProgress });
  const { w: own } = await model.params();
  const file = await model.save({ optimizer: false });
  const wFrom = async weights => {
    const other = await load({ device, weights });
    const { w } = await other.params();
    other.dispose();
    return w;
  };
  const found = { heard, own: Array.from(own), loaded: {}, refused: {} };
  const sources = { bytes: file, blob: new Blob([file]), answer: inPieces(file) };
  for (const name in sources) found.loaded[name] = equal(await wFrom(sources[name]), own);
  const bits = Uint8Array.from(atob(halves), letter => letter.charCodeAt(0));
  found.halves = Array.from(await wFrom(inPieces(bits)));
  for (const [name, bytes] of Object.entries(damaged(file)))
    found.refused[name] = await said(load({ device, weights: inPieces(bytes) }));
  found.refused.broken = await said(
    load({ device, weights: inPieces(file, { breaksAt: 50_000 }) }),
  );

  await model.train({ x: new Float32Array(600).fill(1) });
  const { w: trained } = await model.params();
  const whole = await model.save();
  const blob = await model.save({ blob: true });
  found.isSame = equal(new Uint8Array(await blob.arrayBuffer()), whole);
  found.refused.full = await withFullBrowser(() => said(model.save({ blob: true })));
  const other = await load({ device });
  found.refused.restored = await said(other.restore(new Blob([damaged(whole).flipped])));
  found.isUntouched = equal((await other.params()).w, own) && !other.progress.steps.train;
  await other.restore(blob);
  found.isRestored = equal((await other.params()).w, trained) && other.progress.steps.train === 1;
  await other.reset();
  found.isReset = equal((await other.params()).w, own);
  other.dispose();
  model.dispose();
  return found;
}
