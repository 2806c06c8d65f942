// A text model with a vocabulary of tokens: reads a text, trains on it and writes; in a worker, too.

const refusalOf = promise =>
  Promise.resolve(promise).then(
    () => null,
    ({ code, field, message }) => ({ code, field, message }),
  );

async function written(model, prompt, options) {
  await model.forget();
  const pieces = [];
  for await (const piece of model.generate(prompt, options)) pieces.push(piece);
  return pieces;
}

/** What each id of a text adds to it. */
function streamed(tokens, text) {
  const stream = tokens.stream();
  return [...tokens.encode(text).map(id => stream.push(id)), stream.end()];
}

export default async function tokenText({ load }, { device, text, prompt, worker }) {
  const model = await load({ device, worker });
  const tokens = await model.tokens();
  const data = await model.readData(text, { name: 'book.txt' });
  const found = {
    ids: tokens.encode(text),
    size: tokens.size,
    decoded: tokens.decode(tokens.encode(text)),
    streamed: streamed(tokens, text.slice(0, 60)),
    isKept: (await model.tokens()) === tokens,
    rows: data.rows,
    shape: data.arrays.letters.shape,
    windows: Array.from(data.arrays.letters),
    short: await refusalOf(model.readData('ab', { name: 'short.txt' })),
    before: await written(model, prompt, { entry: 'read', temperature: 0, steps: 12 }),
  };
  const { loss } = await model.fit(data, { steps: 5, seed: 3 });
  found.loss = loss;
  found.after = await written(model, prompt, { entry: 'read', temperature: 0, steps: 12 });
  found.drawn = await written(model, prompt, { entry: 'read', seed: 5, steps: 60, temperature: 2 });
  found.sampled = (await written(model, prompt, { steps: 4 })).length > 0;
  model.dispose();
  return found;
}
