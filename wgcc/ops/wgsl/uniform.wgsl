// Uniform in [0, 1): 24 random bits, so never 1.
fn wg_uniform(seed: u32, site: u32, call: u32, index: u32) -> f32 {
  let bits = wg_threefry(vec2u(seed, site), vec2u(call, index)).x;
  return f32(bits >> 8u) * 5.9604644775390625e-8f;
}
