// max
// from loops.wg:38
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: cell.gates f32[2, 20]
//   x1: state1 f32[2, 5], then cell.c f32[2, 5]
//   y0: cell.h f32[2, 5]
//   round0: index u32
//   y1: seen f32[6, 2]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 10>;
@group(0) @binding(3) var<uniform> round0: vec4u;
@group(0) @binding(4) var<storage, read_write> y1: array<f32, 12>;

const OUTER = 2u;
const INNER = 5u;
const WORKGROUP = 64u;

// max(x, y), but NaN where one of them is NaN, by their bits: that of WGSL may be the other one.
fn wg_max(x: f32, y: f32) -> f32 {
  let larger = bitcast<u32>(max(x, y));
  let bits = max(bitcast<u32>(x) & 0x7fffffffu, bitcast<u32>(y) & 0x7fffffffu);
  return bitcast<f32>(select(larger, bits, bits > 0x7f800000u));
}

// Infinity or NaN, by its bits, which are a variable because no constant may be either.
fn wg_not_finite(word: u32) -> f32 {
  var bits = word;
  return bitcast<f32>(bits);
}

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
  var max_0: f32 = wg_not_finite(0xff800000u);
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 20u + r + 15u];
    let sigmoid_0 = wg_sigmoid(x_0);
    let x_1 = x0[o * 20u + r + 5u];
    let sigmoid_1 = wg_sigmoid(x_1);
    let x_2 = x1[o * 5u + r];
    let mul_0 = (sigmoid_1 * x_2);
    let x_3 = x0[o * 20u + r];
    let sigmoid_2 = wg_sigmoid(x_3);
    let x_4 = x0[o * 20u + r + 10u];
    let tanh_0 = wg_tanh(x_4);
    let mul_1 = (sigmoid_2 * tanh_0);
    let add_0 = (mul_0 + mul_1);
    let tanh_1 = wg_tanh(add_0);
    let mul_2 = (sigmoid_0 * tanh_1);
    max_0 = wg_max(max_0, mul_2);
    x1[o * 5u + r] = add_0;
    y0[o * 5u + r] = mul_2;
  }
  y1[round0.x * 2u + o] = max_0;
}
