import { load } from '@my-models/digits';

const out = document.getElementById('out');
try {
  const model = await load();
  const image = new Uint8Array(64 * 64).fill(3);
  const label = new Int32Array(64).fill(2);
  for await (const { step, loss } of model.fit({ image, label }, { steps: 5 }))
    out.textContent = `trained: ${step} ${loss}`;
} catch (error) {
  out.textContent = `${error}`;
}
