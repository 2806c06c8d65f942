// The remainder that has the divisor's sign.
fn wg_mod(x: f32, z: f32) -> f32 {
  let r = x - z * floor(x / z);
  // The quotient's rounding may leave r one divisor off.
  return select(r, r + z, (r < 0.0f && z > 0.0f) || (r > 0.0f && z < 0.0f));
}
