// A bundle whose training has loops: what it says of a NaN in one round, and what its profile has.

export default async function loops({ load, device }, { good, bad, device: name }) {
  const model = await load(name === 'wasm' ? { device: name } : { device: device ?? name });
  await model.train({ xs: Float32Array.from(good) });
  let said = '';
  try {
    await model.train({ xs: Float32Array.from(bad) });
  } catch (error) {
    said = error.message;
  }
  const { w } = await model.params();
  const { rows } = await model.profile('train', 1);
  model.dispose();
  return { said, w: [...w], rows: rows.map(({ label, times }) => ({ label, times })) };
}
