// How much more memory Node takes to load a bundle and to save it, in bytes; the model as a file.
import { readFileSync, writeFileSync } from 'node:fs';

const kilobytes = key => {
  const [, found] = readFileSync('/proc/self/status', 'utf8').match(RegExp(`${key}:\\s+(\\d+)`));
  return 1024 * Number(found);
};

export default async function peak({ load, device: gpu }, { device = gpu, path }) {
  const before = kilobytes('VmRSS');
  const stages = new Set();
  const onProgress = ({ stage }) => stages.add(stage);
  const model = await load({ device, threads: 1, onProgress });
  const loading = kilobytes('VmHWM') - before;
  const blob = await model.save({ blob: true });
  const saving = kilobytes('VmHWM') - before - loading;
  writeFileSync(path, new Uint8Array(await blob.arrayBuffer()));
  model.dispose();
  return { loading, saving, stages: [...stages] };
}
