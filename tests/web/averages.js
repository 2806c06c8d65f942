// What entries give with the moving averages of a checkpoint as parameters, and what is refused.

export default async function averages({ load, device }, { file, x }) {
  const bytes = Uint8Array.from(atob(file), c => c.charCodeAt(0));
  const model = await load({ device });
  const given = { x: new Float32Array(x) };
  await model.restore(bytes);
  const trained = {
    plain: (await model.plain(given)).y,
    averaged: (await model.averaged(given)).y,
  };
  await model.restore(bytes, { weights: 'opt.ema' });
  const loaded = { plain: (await model.plain(given)).y, averaged: (await model.averaged(given)).y };
  const codes = [];
  for (const weights of ['other.ema', 'mean', '']) {
    const error = await model.restore(bytes, { weights }).catch(found => found);
    codes.push(error.code);
  }
  model.dispose();
  const fresh = await load({ device, weights: 'ema' });
  const own = [...(await fresh.plain(given)).y];
  fresh.dispose();
  const lists = ({ plain, averaged }) => ({ plain: [...plain], averaged: [...averaged] });
  return { trained: lists(trained), loaded: lists(loaded), own, codes };
}
