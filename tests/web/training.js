// Trains on given batches, from given weights or a checkpoint: losses, the adapter, the checkpoint
// after it.

const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const base64 = data => btoa(Array.from(data, byte => String.fromCharCode(byte)).join(''));

export default async function training(
  { load, device: gpu },
  { batches, checkpoint, profile, entry = 'train', together, data, options, device = gpu, threads },
) {
  const model = await load({ device, profile, threads });
  const losses = [];
  if (checkpoint) await model.restore(bytes(checkpoint));
  if (data)
    for await (const report of model.fit(data, { ...options, entry })) losses.push(report.loss);
  else if (together)
    for await (const report of model.fit(batches, { steps: batches.length, every: 1, entry }))
      losses.push(report.loss);
  else for (const batch of batches) losses.push((await model.call(entry, batch)).loss[0]);
  const saved = base64(await model.save());
  const { adapter, progress } = model;
  model.dispose();
  return { losses, checkpoint: saved, adapter, progress };
}
