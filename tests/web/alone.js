// What a page needs: loads, trains and predicts. `code` where that fails.

export default async function job({ load, device }) {
  try {
    const model = await load({ device });
    const losses = [];
    const x = Float32Array.from({ length: 36 }, (_, i) => Math.sin(i));
    const y = Float32Array.from({ length: 12 }, (_, i) => x[3 * i]);
    for await (const { loss } of model.fit({ x, y }, { steps: 20 })) losses.push(loss);
    const { y: predicted } = await model.predict({ x: x.slice(0, 6) });
    model.dispose();
    return { losses, predicted: Array.from(predicted) };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}
