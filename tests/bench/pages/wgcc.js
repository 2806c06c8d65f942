// The bundle that `wgcc build` wrote, as its own README says to use it.
import { batchOf, begin } from './task.js';

begin(async name => {
  const { load } = await import(`/bundles/${name}/index.js`);
  const model = await load();
  globalThis.model = model;
  if (name === 'matmul')
    return async () => {
      await model.multiply();
      return 0;
    };
  const batch = Object.fromEntries(
    Object.entries(batchOf(name)).map(([key, [data]]) => [key, data]),
  );
  return async () => (await model.train(batch)).loss[0];
});
