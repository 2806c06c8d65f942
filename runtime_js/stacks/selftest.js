// The self-test recorded in a bundle, as a job: how far each output is off, relative to 1 + |expected|.

export default async function selftest({ load, device, randomWords }, { profile }) {
  const model = await load({ device, profile }),
    { seed, entries } = model.plan.selftest ?? { entries: {} },
    outputs = [];
  for (const [entry, test] of Object.entries(entries)) {
    await model.reset(undefined, { own: true });
    const worst = {};
    for (const [step, expected] of test.outputs.entries()) {
      const inputs = Object.fromEntries(
        Object.entries(test.inputs).map(([name, draw]) => [
          name,
          drawn(model.plan, entry, name, draw, seed, step, randomWords),
        ]),
      );
      const found = await model.call(entry, inputs);
      for (const [name, facts] of Object.entries(expected))
        worst[name] = Math.max(worst[name] ?? 0, off(found[name], facts));
    }
    for (const [output, error] of Object.entries(worst))
      outputs.push({ entry, output, error, tolerance: test.tolerance });
  }
  const on = `${model.adapter.name}, ${model.adapter.profile} kernels`;
  model.dispose();
  return { on, outputs };
}

/** The input that the compiler drew, as wgcc_runtime/drawn.py does. */
function drawn({ entries, tensors }, entry, name, { kind, low, high }, seed, step, randomWords) {
  const key = entries[entry].inputs[name],
    { shape, dtype } = tensors[key],
    words = randomWords(
      seed,
      key,
      shape.reduce((a, b) => a * b, 1),
      step,
    );
  if (kind == 'uniform') return Float32Array.from(words, word => low + (word >>> 8) * 2 ** -24 * (high - low));
  const integers = Array.from(words, word => low + (word % (high - low + 1)));
  return dtype[0] == 'f' ? Float32Array.from(integers) : integers;
}

/** Sums are judged against the sum of magnitudes, because terms of both signs cancel. */
function off(list, { sum, abs, first }) {
  const total = list.reduce((a, b) => a + b, 0),
    size = list.reduce((a, b) => a + Math.abs(b), 0);
  const errors = [
    Math.abs(total - sum) / (1 + abs),
    Math.abs(size - abs) / (1 + abs),
    ...first.map((wanted, i) => Math.abs(list[i] - wanted) / (1 + Math.abs(wanted))),
  ];
  // NaN compares as smaller than everything, which would pass; JSON has no infinity.
  return errors.some(Number.isNaN) ? Number.MAX_VALUE : Math.max(...errors);
}
