// exp(x) - 1, accurate near 0: there a polynomial.
fn wg_expm1(x: f32) -> f32 {
  var p = 0.00019993183f * x + 0.0013997447f;
  p = p * x + 0.008333072f;
  p = p * x + 0.041665316f;
  p = p * x + 0.16666669f;
  p = p * x + 0.5f;
  return select(x + x * x * p, exp(x) - 1.0f, abs(x) >= 0.5f);
}
