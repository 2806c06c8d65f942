// The remainder that has the divisor's sign; x where the divisor is 0.
fn wg_mod_i32(x: i32, z: i32) -> i32 {
  if (z == 0) { return x; }
  let r = x % z;
  return select(r, r + z, r != 0 && (r < 0) != (z < 0));
}
