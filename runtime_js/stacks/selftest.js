// The self-test recorded in a bundle, as a job: the error of each output, relative to 1 +
// |expected|.

export default async function job(
  { load, device, inspect },
  { profile, device: asked, subgroups },
) {
  const model = await load({ device: asked ?? device, profile, subgroups });
  const outputs = await (await inspect()).selftest(model);
  const { name, kind, profile: kernels, subgroups: hasSubgroups } = model.adapter;
  const reductions = hasSubgroups ? 'subgroup' : 'barrier';
  const on = `${name}, ${kernels} kernels${kind === 'webgpu' ? `, ${reductions} reductions` : ''}`;
  model.dispose();
  return { on, outputs };
}
