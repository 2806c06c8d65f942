// ring
// from memory.wg:25
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: ring.copy f32[6, 3]
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 18>;

const OUTER = 18u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let copy_0 = 0.0f;
  y0[o] = copy_0;
}
