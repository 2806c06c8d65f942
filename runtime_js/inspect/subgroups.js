// The kernels for devices with subgroup operations: the compiler wrote them beside the others.

/** @import { Machine } from '../core/machine.js' */

/** The smallest kernel with the operations that kernels use. Mirrors device.py. */
const PROBE = `enable subgroups;
var<workgroup> found: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
  @builtin(subgroup_invocation_id) id: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(local_invocation_index) lane: u32,
) {
  let whole = subgroupAll(subgroupBallot(true)[id / 32u] != 0u);
  let near = subgroupShuffleXor(f32(lane), 1u);
  found[lane] = select(subgroupShuffle(near, id % size), near, whole);
}
`;

/**
 * Kernels for a device with subgroups; as they are, if its driver refuses to compile such kernels,
 * or somebody has edited them.
 * @param {Machine} machine @param {Record<string, string>} texts by file
 */
export async function kernelsFor({ gpu, adapter, plan }, texts) {
  adapter.subgroups = await compiles(gpu, PROBE);
  if (!adapter.subgroups) return texts;
  const forms = { ...texts };
  for (const { file, subgroups } of plan.kernels)
    if (subgroups && !plan.edited?.[`kernels/${file}`]) forms[file] = texts[`subgroups/${file}`];
  return forms;
}

/** @param {GPUDevice} gpu @param {string} code */
async function compiles(gpu, code) {
  gpu.pushErrorScope('validation');
  const pipeline = gpu.createComputePipelineAsync({
    layout: 'auto',
    compute: { module: gpu.createShaderModule({ code }), entryPoint: 'main' },
  });
  const isMade = await pipeline.then(
    () => true,
    () => false,
  );
  // A lost device is reported by what follows.
  const error = await gpu.popErrorScope().catch(() => null);
  return isMade && !error;
}
