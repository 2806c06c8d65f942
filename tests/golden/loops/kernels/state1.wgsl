// state1
// from loops.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   round0: index u32
//   x0: cell.wx.add.all f32[6, 2, 20]
//   x1: cell.wh.matmul f32[2, 20]
//   y0: cell.input.all f32[6, 2, 5], then cell.forget.all f32[6, 2, 5], then cell.new.all f32[6, 2, 5], then cell.output.all f32[6, 2, 5], then cell.tanh_2.all f32[6, 2, 5], then repeat_3 f32[6, 2, 5], then state1.all f32[6, 2, 5]
//   x2: state1 f32[2, 5], then cell.c f32[2, 5]
//   y1: cell.h f32[2, 5]
@group(0) @binding(0) var<uniform> round0: vec4u;
@group(0) @binding(1) var<storage, read> x0: array<f32, 240>;
@group(0) @binding(2) var<storage, read_write> x1: array<f32, 40>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 420>;
@group(0) @binding(4) var<storage, read_write> x2: array<f32, 10>;
@group(0) @binding(5) var<storage, read_write> y1: array<f32, 10>;

const OUTER = 10u;
const WORKGROUP = 64u;

// 1 / (1 + exp(-x)) without overflow: exp only of numbers up to 0.
fn wg_sigmoid(x: f32) -> f32 {
  let e = exp(-abs(x));
  let y = select(1.0f, e, x < 0.0f) / (1.0f + e);
  // exp of NaN is not NaN on every adapter.
  return select(x, y, x == x);
}

// tanh x = x p(x²) / q(x²), a minimax fit with p(0) = q(0) = 1, which keeps the relative error small
// near 0. From 8.8 on it is 1 in f32. The comparisons are such that NaN stays NaN; no rounding may
// give a result beyond 1.
fn wg_tanh(x: f32) -> f32 {
  let above = select(x, -8.8f, x < -8.8f);
  let c = select(above, 8.8f, above > 8.8f);
  let z = c * c;
  var p = 1.37793802e-8f * z + 2.09160746e-5f;
  p = p * z + 3.51431858e-3f;
  p = p * z + 0.133968364f;
  p = p * z + 1.0f;
  var q = 7.95042998e-7f * z + 3.31620397e-4f;
  q = q * z + 2.59483552e-2f;
  q = q * z + 0.4673016f;
  q = q * z + 1.0f;
  let y = c * p / q;
  let least = select(y, -1.0f, y < -1.0f);
  return select(least, 1.0f, least > 1.0f);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[round0.x * 40u + (o / 5u) * 20u + (o % 5u)];
  let x_1 = x1[(o / 5u) * 20u + (o % 5u)];
  let add_0 = (x_0 + x_1);
  let sigmoid_0 = wg_sigmoid(add_0);
  let x_2 = x0[round0.x * 40u + (o / 5u) * 20u + (o % 5u) + 5u];
  let x_3 = x1[(o / 5u) * 20u + (o % 5u) + 5u];
  let add_1 = (x_2 + x_3);
  let sigmoid_1 = wg_sigmoid(add_1);
  let x_4 = x0[round0.x * 40u + (o / 5u) * 20u + (o % 5u) + 10u];
  let x_5 = x1[(o / 5u) * 20u + (o % 5u) + 10u];
  let add_2 = (x_4 + x_5);
  let tanh_0 = wg_tanh(add_2);
  let x_6 = x0[round0.x * 40u + (o / 5u) * 20u + (o % 5u) + 15u];
  let x_7 = x1[(o / 5u) * 20u + (o % 5u) + 15u];
  let add_3 = (x_6 + x_7);
  let sigmoid_2 = wg_sigmoid(add_3);
  let x_8 = x2[o];
  let mul_0 = (sigmoid_1 * x_8);
  let mul_1 = (sigmoid_0 * tanh_0);
  let add_4 = (mul_0 + mul_1);
  let tanh_1 = wg_tanh(add_4);
  let mul_2 = (sigmoid_2 * tanh_1);
  let copy_0 = mul_2;
  let copy_1 = x_8;
  y0[round0.x * 10u + o + 180u] = sigmoid_0;
  y0[round0.x * 10u + o + 60u] = sigmoid_1;
  y0[round0.x * 10u + o + 240u] = tanh_0;
  y0[round0.x * 10u + o + 300u] = sigmoid_2;
  x2[o] = add_4;
  y0[round0.x * 10u + o + 360u] = tanh_1;
  y1[o] = mul_2;
  y0[round0.x * 10u + o] = copy_0;
  y0[round0.x * 10u + o + 120u] = copy_1;
}
