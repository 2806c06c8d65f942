// Calls entries that keep state, draw random numbers and take booleans.

export default async function memory({ load, device }) {
  const model = await load({ device, seed: 3 });
  await model.push({ row: Float32Array.of(1, 2, 3) });
  const found = {
    ...(await model.push({ row: [4, 5, 6] })),
    ...(await model.look({ keep: [true, true, false, true, false, true] })),
  };
  await model.clear();
  model.dispose();
  return Object.fromEntries(Object.entries(found).map(([name, list]) => [name, Array.from(list)]));
}
