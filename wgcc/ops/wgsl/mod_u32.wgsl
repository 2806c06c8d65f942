// The remainder; x where the divisor is 0.
fn wg_mod_u32(x: u32, z: u32) -> u32 {
  if (z == 0u) { return x; }
  return x % z;
}
