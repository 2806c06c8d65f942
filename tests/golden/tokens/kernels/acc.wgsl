// acc
// from tokens.wg:29
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: labels i32[2, 5]
//   x1: loss.log f32[2, 5]
//   x2: loss.sum f32[2, 5]
//   x3: loss.sum_2 f32[2, 5], then d.loss.where f32[2, 5]
//   x4: argmax.min i32[2, 5]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 10>;
@group(0) @binding(3) var<storage, read_write> x3: array<f32, 10>;
@group(0) @binding(4) var<storage, read> x4: array<i32, 10>;
@group(0) @binding(5) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const INNER = 10u;
const WORKGROUP = 64u;

fn wg_cos(x: f32) -> f32 {
  let turn = wg_turn(x);
  let odd = turn.y == 1.0f || turn.y == 3.0f;
  let y = select(wg_cos_near(turn.x), wg_sin_near(turn.x), odd);
  return select(y, -y, turn.y == 1.0f || turn.y == 2.0f);
}

// exp(x) - 1, accurate near 0: there a polynomial.
fn wg_expm1(x: f32) -> f32 {
  var p = 0.00019993183f * x + 0.0013997447f;
  p = p * x + 0.008333072f;
  p = p * x + 0.041665316f;
  p = p * x + 0.16666669f;
  p = p * x + 0.5f;
  return select(x + x * x * p, exp(x) - 1.0f, abs(x) >= 0.5f);
}

// max(x, y), but NaN where one of them is NaN, by their bits: that of WGSL may be the other one.
fn wg_max(x: f32, y: f32) -> f32 {
  let larger = bitcast<u32>(max(x, y));
  let bits = max(bitcast<u32>(x) & 0x7fffffffu, bitcast<u32>(y) & 0x7fffffffu);
  return bitcast<f32>(select(larger, bits, bits > 0x7f800000u));
}

// The remainder that has the divisor's sign; x where the divisor is 0.
fn wg_mod_i32(x: i32, z: i32) -> i32 {
  if (z == 0) { return x; }
  let r = x % z;
  return select(r, r + z, r != 0 && (r < 0) != (z < 0));
}

// An angle as whole quarter turns (mod 4, in y) and what is left (in x), from -π/4 to π/4 radians.
// Exact for every x, by integer arithmetic: adapters differ widely in sin and cos of large numbers.
fn wg_turn(x: f32) -> vec2f {
  if (abs(x) < 0.78539816f) {
    return vec2f(x, 0.0f);
  }
  let bits = bitcast<u32>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) {
    // Infinity and NaN give NaN.
    return vec2f(bitcast<f32>(bits | 0x7fc00000u), 0.0f);
  }
  let mantissa = (bits & 0x7fffffu) | 0x800000u;
  // |x| / 2π in units of 2^-64 turns is mantissa times a window of 96 bits of 1 / 2π.
  let shift = ((bits >> 23u) & 255u) - 118u;
  var inverse = array<u32, 8>(
    0x0u,
    0x28be60dbu,
    0x9391054au,
    0x7f09d5f4u,
    0x7d4d3770u,
    0x36d8a566u,
    0x4f10e410u,
    0x7f9458eau,
  );
  let at = min(shift >> 5u, 4u);
  let left = shift & 31u;
  // A shift by 32 is not allowed, so it is done as a shift by up to 31 and one by 1.
  let high = (inverse[at] << left) | ((inverse[at + 1u] >> (31u - left)) >> 1u);
  let low = (inverse[at + 1u] << left) | ((inverse[at + 2u] >> (31u - left)) >> 1u);
  let lowest = (inverse[at + 2u] << left) | ((inverse[at + 3u] >> (31u - left)) >> 1u);
  // The upper word of mantissa * low, by halves.
  let cross_1 = (mantissa & 0xffffu) * (low >> 16u);
  let cross_2 = (mantissa >> 16u) * (low & 0xffffu);
  let middle = (((mantissa & 0xffffu) * (low & 0xffffu)) >> 16u) + (cross_1 & 0xffffu) + (cross_2 & 0xffffu);
  let carry = (mantissa >> 16u) * (low >> 16u) + (cross_1 >> 16u) + (cross_2 >> 16u) + (middle >> 16u);
  // Its lower word counts near multiples of π/2, where little is left of the upper one.
  let product = mantissa * low;
  let fraction = product + (((mantissa >> 8u) * (lowest >> 16u)) >> 8u);
  let turn = mantissa * high + carry + select(0u, 1u, fraction < product);
  let quarter = (turn + 0x20000000u) >> 30u;
  let whole = bitcast<i32>(turn - (quarter << 30u) + (fraction >> 31u));
  let rest = f32(whole) * 1.4629180792671596e-9f + f32(bitcast<i32>(fraction)) * 3.406121580086554e-19f;
  let negative = (bits >> 31u) == 1u;
  let quarters = select(quarter, 4u - quarter, negative) & 3u;
  return vec2f(select(rest, -rest, negative), f32(quarters));
}

// For |x| up to π/4.
fn wg_sin_near(x: f32) -> f32 {
  let z = x * x;
  return x + x * z * ((-0.00019504318f * z + 0.008332083f) * z - 0.16666654f);
}

fn wg_cos_near(x: f32) -> f32 {
  let z = x * x;
  return 1.0f - 0.5f * z + z * z * ((0.000024423889f * z - 0.0013887243f) * z + 0.041666646f);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  var sum_2: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let eq_0 = (x_0 == i32(-1));
    let x_1 = x1[r];
    let x_2 = x2[r];
    let mul_0 = (x_2 * 0.9f);
    let x_3 = x3[r];
    let div_0 = (x_3 / 7.0f);
    let mul_1 = (div_0 * 0.1f);
    let add_0 = (mul_0 + mul_1);
    let sub_0 = (x_1 - add_0);
    let where_0 = select(sub_0, 0.0f, eq_0);
    let ne_0 = (!(x_0 == i32(-1)));
    let cast_0 = f32(ne_0);
    let x_4 = x4[r];
    let add_1 = (x_4 + 7i);
    let mod_0 = wg_mod_i32(add_1, 7i);
    let eq_1 = (mod_0 == x_0);
    let cast_1 = f32(eq_1);
    sum_0 = (sum_0 + where_0);
    sum_1 = (sum_1 + cast_0);
    sum_2 = (sum_2 + cast_1);
  }
  let maximum_0 = wg_max(sum_1, 1.0f);
  let reciprocal_0 = (1.0f / maximum_0);
  for (var r = 0u; r < INNER; r++) {
    let x_5 = x0[r];
    let eq_2 = (x_5 == i32(-1));
    let where_1 = select(reciprocal_0, 0.0f, eq_2);
    x3[r] = where_1;
  }
  let div_1 = (sum_0 / maximum_0);
  let x_6 = scalars[0u];
  let add_2 = (x_6 + 1u);
  let cast_2 = f32(add_2);
  let lt_0 = (cast_2 < 2.0f);
  let mul_2 = (0.01f * cast_2);
  let mul_3 = (mul_2 * 0.5f);
  let sub_1 = (cast_2 - 2.0f);
  let mul_4 = (sub_1 * 0.125f);
  let lt_1 = (mul_4 < 0.0f);
  let where_2 = select(mul_4, 0.0f, lt_1);
  let gt_0 = (where_2 > 1.0f);
  let where_3 = select(where_2, 1.0f, gt_0);
  let mul_5 = (3.141592653589793f * where_3);
  let cos_0 = wg_cos(mul_5);
  let add_3 = (1.0f + cos_0);
  let mul_6 = (0.005f * add_3);
  let where_4 = select(mul_6, mul_3, lt_0);
  let mul_7 = (cast_2 * (-0.10536051565782628f));
  let expm1_0 = wg_expm1(mul_7);
  let neg_0 = (-expm1_0);
  let div_2 = (where_4 / neg_0);
  let mul_8 = (cast_2 * (-0.0010005003335835344f));
  let expm1_1 = wg_expm1(mul_8);
  let neg_1 = (-expm1_1);
  let rsqrt_0 = inverseSqrt(neg_1);
  let mul_9 = (sum_2 * 0.1f);
  scalars[1u] = bitcast<u32>(div_1);
  scalars[4u] = add_2;
  scalars[5u] = bitcast<u32>(where_4);
  scalars[6u] = bitcast<u32>(div_2);
  scalars[7u] = bitcast<u32>(rsqrt_0);
  scalars[2u] = bitcast<u32>(mul_9);
}
