// What `generate` writes for each case, or the error: the same as in Python.

export default async function writing({ load, device }, { cases }) {
  const model = await load({ device });
  const found = [];
  for (const { prompt, options } of cases) {
    await model.reset();
    try {
      const pieces = [];
      for await (const piece of model.generate(prompt, options)) pieces.push(piece);
      found.push(pieces);
    } catch (error) {
      found.push({ code: error.code, field: error.field, text: error.message });
    }
  }
  const stopper = new AbortController();
  let aborted = '';
  try {
    for await (const piece of model.generate('a', { steps: 9, topK: 1, signal: stopper.signal })) {
      aborted += piece;
      if (aborted.length === 2) stopper.abort();
    }
  } catch (error) {
    aborted += error.name;
  }
  model.dispose();
  return { found, aborted };
}
