// exp x = 2^n exp r with |r| <= log(2) / 2, exp r by a polynomial. Beyond the clamped range the
// result is infinite or 0. The comparisons are such that NaN stays NaN.
fn exp(x: f32) -> f32 {
  let above = select(x, -104.0f, x < -104.0f);
  let c = select(above, 88.8f, above > 88.8f);
  let n = round(c * 1.44269504f);
  // log(2) in two parts, the first of so few bits that its product with n is exact.
  let r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  var p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  let y = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors, because n reaches from -150 to 128.
  let whole = i32(n);
  let half = whole >> 1u;
  return y * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((whole - half + 127) << 23u);
}
