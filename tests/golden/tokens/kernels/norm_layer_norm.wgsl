// norm.layer_norm
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: ids i32[2, 5]
//   x1: opt/opt/ema/tok.w f32[7, 4]
//   x2: opt/opt/ema/norm.g f32[4]
//   x3: opt/opt/ema/norm.b f32[4]
//   y0: norm.layer_norm f32[2, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 28>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 4>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 40>;

const OUTER = 10u;
const INNER = 4u;
const WORKGROUP = 64u;

// max(x, 0), except that NaN stays NaN.
fn wg_relu(x: f32) -> f32 {
  return select(x, 0.0f, x < 0.0f);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  let x_0 = x0[o];
  let row_0 = u32(clamp(x_0, 0, 6));
  for (var r = 0u; r < INNER; r++) {
    let x_1 = x1[row_0 * 4u + r];
    sum_0 = (sum_0 + x_1);
  }
  var sum_1: f32 = 0.0f;
  var sum_2: f32 = 0.0f;
  let row_1 = u32(clamp(x_0, 0, 6));
  let mul_0 = (sum_0 * 0.25f);
  for (var r = 0u; r < INNER; r++) {
    let x_2 = x1[row_1 * 4u + r];
    let sub_0 = (x_2 - mul_0);
    let square_0 = (sub_0 * sub_0);
    sum_1 = (sum_1 + square_0);
    sum_2 = (sum_2 + sub_0);
  }
  let row_2 = u32(clamp(x_0, 0, 6));
  let mul_1 = (sum_2 * 0.25f);
  let mul_2 = (sum_1 * 0.25f);
  let square_1 = (mul_1 * mul_1);
  let sub_3 = (mul_2 - square_1);
  let relu_0 = wg_relu(sub_3);
  let add_0 = (relu_0 + 1e-05f);
  let rsqrt_0 = inverseSqrt(add_0);
  for (var r = 0u; r < INNER; r++) {
    let x_3 = x1[row_2 * 4u + r];
    let sub_1 = (x_3 - mul_0);
    let sub_2 = (sub_1 - mul_1);
    let mul_3 = (sub_2 * rsqrt_0);
    let x_4 = x2[r];
    let mul_4 = (mul_3 * x_4);
    let x_5 = x3[r];
    let add_1 = (mul_4 + x_5);
    y0[o * 4u + r] = add_1;
  }
}
