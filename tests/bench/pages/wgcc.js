// The bundle that `wgcc build` wrote, as its own README says to use it.
import { batchOf, begin } from './task.js';

begin(async ({ model: name, entry, backend, threads, scripts }) => {
  const { load } = await import(`${scripts}/bundles/${name}/index.js`);
  const model = await load(
    backend === 'wasm' ? { device: 'wasm', threads: Number(threads) } : { device: 'webgpu' },
  );
  globalThis.model = model;
  const batch = Object.fromEntries(
    Object.entries(await batchOf(name)).map(([key, [data]]) => [key, data]),
  );
  return async () => {
    try {
      return (await model[entry](batch)).loss?.[0] ?? 0;
    } catch (error) {
      if (error.code !== 'range') throw error;
      await model.reset(); // the cache of a decoder is full
      return 0;
    }
  };
});
