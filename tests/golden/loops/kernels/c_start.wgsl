// c.start
// from loops.wg:43
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: h f32[2, 5]
//   y0: h_2.start f32[2, 5]
//   y1: c.start f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y1: array<f32, 10>;

const OUTER = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let copy_0 = x_0;
  let copy_1 = x_0;
  y0[o] = copy_0;
  y1[o] = copy_1;
}
