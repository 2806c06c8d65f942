// The quotient rounded down; 0 where the divisor is 0.
fn wg_div_u32(x: u32, z: u32) -> u32 {
  if (z == 0u) { return 0u; }
  return x / z;
}
