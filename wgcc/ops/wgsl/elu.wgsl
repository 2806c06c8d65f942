// x above 0, exp(x) - 1 below; NaN stays NaN.
fn wg_elu(x: f32) -> f32 {
  return select(wg_expm1(x), x, x > 0.0f);
}
