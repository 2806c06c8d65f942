// The self-test recorded in a bundle, as a job: the error of each output, relative to 1 +
// |expected|.

export default async function job({ load, device, inspect }, { profile, device: asked }) {
  const model = await load({ device: asked ?? device, profile });
  const outputs = await (await inspect()).selftest(model);
  const on = `${model.adapter.name}, ${model.adapter.profile} kernels`;
  model.dispose();
  return { on, outputs };
}
