// What `restore` makes of each of some checkpoints, and of the weights alone of those it refuses.

export default async function checkpoints({ load, device }, { files }) {
  const model = await load({ device });
  const seen = {};
  for (const name in files) {
    const bytes = Uint8Array.from(atob(files[name]), c => c.charCodeAt(0));
    try {
      seen[name] = { notes: await model.restore(bytes), steps: model.progress.steps.train };
    } catch (error) {
      seen[name] = { code: error.code, text: error.message };
      if (error.code === 'mismatch') {
        await model.restore(bytes, { weightsOnly: true });
        const step = (await model.state())['opt/opt/step'][0];
        seen[name].weights = { steps: model.progress.steps.train ?? 0, step };
      }
    }
  }
  model.dispose();
  return seen;
}
