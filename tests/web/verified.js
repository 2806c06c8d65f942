// Loads with or without the self-test.

export default async function verified({ load, device }, { verify }) {
  const model = await load({ device, verify });
  model.dispose();
  return 'sound';
}
