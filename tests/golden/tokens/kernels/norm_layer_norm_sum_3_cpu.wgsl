// norm.layer_norm.sum_3
// from tokens.wg:13
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: ids i32[2, 5]
//   x1: tok.w f32[7, 4]
//   x2: norm.layer_norm.sum f32[2, 5]
//   y0: norm.layer_norm.sub f32[2, 5, 4]
//   y1: norm.layer_norm.sum_3 f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 28>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 10>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 40>;
@group(0) @binding(4) var<storage, read_write> y1: array<f32, 10>;

const OUTER = 10u;
const INNER = 4u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[((o * 4u + r) / 20u) * 5u + (o % 5u)];
    let row_0 = u32(clamp(x_0, 0, 6));
    let x_1 = x1[row_0 * 4u + r];
    let x_2 = x2[((o * 4u + r) / 20u) * 5u + (o % 5u)];
    let mul_0 = (x_2 * 0.25f);
    let sub_0 = (x_1 - mul_0);
    let square_0 = (sub_0 * sub_0);
    sum_0 = (sum_0 + square_0);
    y0[((o * 4u + r) / 20u) * 20u + (o % 5u) * 4u + r] = sub_0;
  }
  y1[o] = sum_0;
}
