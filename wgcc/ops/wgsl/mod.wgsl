// The remainder that has the divisor's sign.
fn wg_mod(x: f32, z: f32) -> f32 {
  let r = x - z * floor(x / z);
  // By rounding of the quotient, r may be off by one divisor.
  return select(r, r + z, (r < 0.0f && z > 0.0f) || (r > 0.0f && z < 0.0f));
}
