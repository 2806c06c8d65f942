// add_2
// from loops.wg:37
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   round0: index u32
//   scalars: values of one element
@group(0) @binding(0) var<uniform> round0: vec4u;
@group(0) @binding(1) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = round0.x;
  let add_0 = (x_0 + 1u);
  let mul_0 = (add_0 * 2654435769u);
  let add_1 = (1u + mul_0);
  scalars[4u] = add_1;
}
