// The digits example: the losses of two steps.

export default async function job({ load, meta, device }, { device: asked }) {
  const model = await load({ device: asked ?? device });
  const { image, label } = meta.entries.train.inputs;
  const [rows] = label.shape;
  const batch = {
    image: Uint8Array.from({ length: rows * image.shape[1] * image.shape[2] }, (_, i) => i % 17),
    label: Int32Array.from({ length: rows }, (_, i) => i % 10),
  };
  const losses = [];
  for (let i = 0; i < 2; i++) losses.push((await model.train(batch)).loss[0]);
  model.dispose();
  return losses;
}
