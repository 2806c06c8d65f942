// d.out.w
// from loops.wg:31
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: repeat_3 f32[6, 2, 5]
//   x1: d.sub f32[2, 6, 1]
//   y0: d.out.w.copy f32[5, 1]
@group(0) @binding(0) var<storage, read> x0: array<f32, 420>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 12>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 5>;

const OUTER = 5u;
const INNER = 12u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[(r % 6u) * 10u + (r / 6u) * 5u + o];
    let x_1 = x1[r];
    let mul_0 = (x_0 * x_1);
    sum_0 = (sum_0 + mul_0);
  }
  let copy_0 = sum_0;
  y0[o] = copy_0;
}
