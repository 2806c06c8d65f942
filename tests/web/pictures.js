// Reads PNG files as a browser decodes them: arrays and preparation.

export default async function pictures({ load, device }, { files }) {
  const model = await load({ device });
  const given = files.map(({ path, data }) => {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
    return Object.assign(new File([bytes], path.split('/').at(-1)), { path });
  });
  const { arrays, preparation, notes } = await model.readData(given);
  model.dispose();
  const [image, label] = [Array.from(arrays.image), Array.from(arrays.label)];
  return { image, label, shape: arrays.image.shape, preparation, notes };
}
