// The quotient rounded down; 0 where the divisor is 0.
fn wg_div_i32(x: i32, z: i32) -> i32 {
  if (z == 0) { return 0; }
  let q = x / z;
  let r = x - q * z;
  return select(q, q - 1, r != 0 && (r < 0) != (z < 0));
}
