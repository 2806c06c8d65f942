// last
// from loops.wg:44
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: h_2 f32[2, 5]
//   x1: c f32[2, 5]
//   y0: last f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 10>;

const OUTER = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[o];
  let add_0 = (x_0 + x_1);
  y0[o] = add_0;
}
