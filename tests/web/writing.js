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
  const busy = await twoTexts(model);
  model.dispose();
  return { found, aborted, busy };
}

/** A second text while one is written is refused; after it, and after an aborted one, there is another. */
async function twoTexts(model) {
  const open = signal => model.generate('a', { entry: 'both', steps: 3, signal });
  const textOf = async pieces => {
    let text = '';
    for await (const piece of pieces) text += piece;
    return text;
  };
  const first = open();
  const { value } = await first.next();
  const refused = await textOf(open()).catch(({ code, field }) => [code, field]);
  const rest = value + (await textOf(first));
  const stopper = new AbortController();
  const left = open(stopper.signal);
  await left.next();
  stopper.abort();
  const after = await textOf(open());
  for await (const _ of open()) break;
  return [...refused, rest, after, await textOf(open())];
}
