// x Φ(x) = max(x, 0) - |x| Φ(-|x|), with Φ(-a) = 2^-q(a), q fitted to its logarithm. That keeps
// digits of negative x which 1 + erf x loses. From 9 on the second term is as good as 0.
fn wg_gelu(x: f32) -> f32 {
  let a = select(abs(x), 9.0f, abs(x) > 9.0f);
  var t = -1.9917156e-6f * a + 3.057832e-5f;
  t = t * a - 1.5027453e-4f;
  t = t * a - 2.1006916e-4f;
  t = t * a + 7.142055e-3f;
  t = t * a - 5.2539483e-2f;
  t = t * a - 0.4591974f;
  t = t * a - 1.1511061f;
  t = t * a - 1.0f;
  // The sum rounds t to a whole number n, which is then in its lowest bits.
  let sum = t + 12582912.0f;
  let r = t - (sum - 12582912.0f);
  // 2^r for r from -1/2 to 1/2.
  var y = 1.5353381e-4f * r + 1.3398881e-3f;
  y = y * r + 9.618437e-3f;
  y = y * r + 5.5503324e-2f;
  y = y * r + 0.24022648f;
  y = y * r + 0.6931472f;
  y = y * r + 1.0f;
  let cdf = bitcast<f32>(bitcast<i32>(y) + (bitcast<i32>(sum) << 23u));
  return select(x, 0.0f, x < 0.0f) - a * cdf;
}
