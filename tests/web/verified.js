// Loads with or without the self-test, on a GPU or as asked.

export default async function verified({ load, device: gpu }, { verify, device = gpu }) {
  const model = await load({ device, verify });
  model.dispose();
  return 'sound';
}
