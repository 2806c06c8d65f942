// Standard normal by the inverse distribution function; erfinv gets exact numbers, never ±1.
fn wg_normal(seed: u32, site: u32, call: u32, index: u32) -> f32 {
  let bits = wg_threefry(vec2u(seed, site), vec2u(call, index)).x;
  let x = f32(2i * i32(bits >> 9u) + 1i - 8388608i) * 1.1920928955078125e-7f;
  return 1.41421356f * wg_erfinv(x);
}
