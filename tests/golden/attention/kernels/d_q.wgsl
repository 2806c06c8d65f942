// d.q
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.reshape f32[1, 2, 5, 4]
//   y0: d.q.copy f32[2, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 40>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let copy_0 = x_0;
  y0[o] = copy_0;
}
