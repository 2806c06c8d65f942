// Entries with more rows than they take (tests/reliability/test_random_rows.py): outputs, or the code of the refusal.

export default async function rowEntries({ load, device }, { inputs, names }) {
  const model = await load({ device });
  const seen = {};
  for (const name of names)
    try {
      const labels = inputs.y && { y: Int32Array.from(inputs.y) };
      const outputs = await model[name]({ ...inputs, ...labels });
      seen[name] = {};
      for (const [output, value] of Object.entries(outputs))
        seen[name][output] = typeof value === 'number' ? [value] : Array.from(value);
    } catch (error) {
      seen[name] = { code: error.code };
    }
  model.dispose();
  return seen;
}
