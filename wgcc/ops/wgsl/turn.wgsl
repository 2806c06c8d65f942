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
    0x0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau,
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
  let middle = (((mantissa & 0xffffu) * (low & 0xffffu)) >> 16u)
    + (cross_1 & 0xffffu) + (cross_2 & 0xffffu);
  let carry = (mantissa >> 16u) * (low >> 16u)
    + (cross_1 >> 16u) + (cross_2 >> 16u) + (middle >> 16u);
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
