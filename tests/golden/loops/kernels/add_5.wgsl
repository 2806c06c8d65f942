// add_5
// from loops.wg:44
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = scalars[2u];
  let add_0 = (x_0 + 1u);
  scalars[2u] = add_0;
}
