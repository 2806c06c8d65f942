// tanh x = x p(x²) / q(x²), a minimax fit with p(0) = q(0) = 1, which keeps the relative error small
// near 0. From 8.8 on it is 1 in f32. The comparisons are such that NaN stays NaN; no rounding may
// give a result beyond 1.
fn wg_tanh(x: f32) -> f32 {
  let above = select(x, -8.8f, x < -8.8f);
  let c = select(above, 8.8f, above > 8.8f);
  let z = c * c;
  var p = 1.37793802e-8f * z + 2.09160746e-5f;
  p = p * z + 3.51431858e-3f;
  p = p * z + 0.133968364f;
  p = p * z + 1.0f;
  var q = 7.95042998e-7f * z + 3.31620397e-4f;
  q = q * z + 2.59483552e-2f;
  q = q * z + 0.4673016f;
  q = q * z + 1.0f;
  let y = c * p / q;
  let least = select(y, -1.0f, y < -1.0f);
  return select(least, 1.0f, least > 1.0f);
}
