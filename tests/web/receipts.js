// Keeps a receipt of a training, replays others, and says why some are refused.

export default async function receipts({ load }, { data, keep, replays, refused, threads }) {
  const model = await load({ device: 'wasm', threads, seed: keep.seed });
  const { receipt } = await model.fit(data, keep);
  const replayed = [];
  for (const { text, checkpoint } of replays) {
    await model.reset(keep.seed);
    if (checkpoint) await model.restore(Uint8Array.from(atob(checkpoint), c => c.charCodeAt(0)));
    const options = { replay: text, ...(checkpoint && { resume: true }) };
    const { replay, stopped, steps } = await model.fit(data, options);
    replayed.push({ ...replay, stopped, last: steps.at(-1) ?? null });
  }
  const messages = {};
  for (const [name, options] of Object.entries(refused)) {
    await model.reset(options.seed ?? keep.seed);
    const { text: replay, receipt } = options;
    messages[name] = await model
      .fit({ ...data, ...options.data }, { replay, receipt, steps: 1 })
      .then(
        () => 'trained',
        error => error.message,
      );
  }
  model.dispose();
  return { receipt, replayed, messages };
}
