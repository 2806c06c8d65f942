// Whether every call waits for its own work: a buffer may be mapped at once unless the last submit
// wrote to it.

export default async function waits({ load, device: gpu = navigator.gpu }) {
  const adapter = await gpu.requestAdapter();
  const device = await adapter.requestDevice();
  const written = new Set();
  const seen = { waited: 0, early: 0 };
  const { createCommandEncoder, createBuffer } = device;
  device.createCommandEncoder = () => {
    const encoder = createCommandEncoder.call(device);
    const { clearBuffer, copyBufferToBuffer } = encoder;
    encoder.clearBuffer = (buffer, ...range) => {
      written.add(buffer);
      return clearBuffer.call(encoder, buffer, ...range);
    };
    encoder.copyBufferToBuffer = (from, at, to, ...range) => {
      written.add(to);
      return copyBufferToBuffer.call(encoder, from, at, to, ...range);
    };
    return encoder;
  };
  device.createBuffer = description => {
    const buffer = createBuffer.call(device, description);
    const { mapAsync } = buffer;
    buffer.mapAsync = (...range) => {
      seen[written.has(buffer) ? 'waited' : 'early']++;
      written.clear();
      return mapAsync.apply(buffer, range);
    };
    return buffer;
  };
  const model = await load({ device });
  await model.push({ row: Float32Array.of(1, 2, 3) });
  await model.clear();
  await model.loadParams(await model.params());
  await model.profile('clear', 1);
  model.dispose();
  return seen;
}
