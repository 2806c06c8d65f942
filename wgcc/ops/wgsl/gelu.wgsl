// x Φ(x), Φ the normal distribution function.
fn wg_gelu(x: f32) -> f32 {
  return 0.5f * x * (1.0f + wg_erf(x * 0.70710678f));
}
