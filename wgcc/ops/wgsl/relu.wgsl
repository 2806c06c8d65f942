// max(x, 0), except that NaN stays NaN.
fn wg_relu(x: f32) -> f32 {
  return select(x, 0.0f, x < 0.0f);
}
