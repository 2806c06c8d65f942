// y
// from regression.wg:9
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: l2.matmul.mul f32[2, 5]
//   x1: l2.b f32[1]
//   y0: y f32[2, 1]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 1>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 2>;

const OUTER = 2u;
const INNER = 5u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 5u + r];
    sum_0 = (sum_0 + x_0);
  }
  let x_1 = x1[0u];
  let add_0 = (sum_0 + x_1);
  y0[o] = add_0;
}
