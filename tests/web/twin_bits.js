// Trains on the twin with several numbers of threads: the checkpoint after each.

const base64 = data => btoa(Array.from(data, byte => String.fromCharCode(byte)).join(''));

export default async function twinBits({ load }, { batches, entry, threads }) {
  const found = [];
  for (const count of threads) {
    const model = await load({ device: 'wasm', threads: count });
    for (const batch of batches) await model.call(entry, batch);
    found.push(base64(await model.save()));
    model.dispose();
  }
  return found;
}
