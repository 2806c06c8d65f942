// The inverse of erf for -1 < x < 1, by Giles' polynomials for single precision.
fn wg_erfinv(x: f32) -> f32 {
  // (1 - x)(1 + x) keeps the digits that 1 - x² would lose near ±1.
  let w = -log((1.0f - x) * (1.0f + x));
  return x * select(wg_erfinv_tail(sqrt(w) - 3.0f), wg_erfinv_middle(w - 2.5f), w < 5.0f);
}

fn wg_erfinv_middle(w: f32) -> f32 {
  var p = 2.81022636e-08f * w + 3.43273939e-07f;
  p = p * w - 3.5233877e-06f;
  p = p * w - 4.39150654e-06f;
  p = p * w + 0.00021858087f;
  p = p * w - 0.00125372503f;
  p = p * w - 0.00417768164f;
  p = p * w + 0.246640727f;
  return p * w + 1.50140941f;
}

fn wg_erfinv_tail(w: f32) -> f32 {
  var p = -0.000200214257f * w + 0.000100950558f;
  p = p * w + 0.00134934322f;
  p = p * w - 0.00367342844f;
  p = p * w + 0.00573950773f;
  p = p * w - 0.0076224613f;
  p = p * w + 0.00943887047f;
  p = p * w + 1.00167406f;
  return p * w + 2.83297682f;
}
