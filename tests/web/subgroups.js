// Results with and without subgroup operations, and which were used: by default, where they are not
// wanted, and with a driver that refuses them.

export default async function subgroups({ load, device }, { columns, choose }) {
  const found = [];
  const refusing = await deviceThatRefuses(device);
  for (const options of [{ device }, { device, subgroups: false }, { device: refusing }]) {
    const model = await load(options);
    const outputs = { ...(await model.columns(columns)), ...(await model.choose(choose)) };
    const lists = Object.entries(outputs).map(([name, array]) => [name, Array.from(array)]);
    found.push({ subgroups: model.adapter.subgroups, ...Object.fromEntries(lists) });
    model.dispose();
  }
  return found;
}

async function deviceThatRefuses(gpu) {
  const adapter = await gpu.requestAdapter();
  const device = await adapter.requestDevice({ requiredFeatures: ['subgroups'] });
  const compile = device.createShaderModule.bind(device);
  device.createShaderModule = ({ code }) =>
    compile({ code: code.replace('enable subgroups;', 'no') });
  return device;
}
