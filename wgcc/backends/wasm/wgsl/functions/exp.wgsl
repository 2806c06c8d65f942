// exp x = 2^n exp r with |r| <= log(2) / 2, exp r by a polynomial. Beyond the clamped range the
// result is infinite or 0. The comparisons are such that NaN stays NaN.
fn exp(x: f32) -> f32 {
  let above = select(x, -104.0f, x < -104.0f);
  let c = select(above, 88.8f, above > 88.8f);
  // The sum rounds to a whole number n, which is then in its lowest bits.
  let sum = c * 1.44269504f + 12582912.0f;
  let y = wg_exp_part(c, sum - 12582912.0f);
  // 2^n in two factors, because n reaches from -150 to 128.
  let whole = bitcast<i32>(sum) - 1262485504;
  let half = whole >> 1u;
  return y * bitcast<f32>((half << 23u) + 1065353216) * bitcast<f32>(((whole - half) << 23u) + 1065353216);
}

// exp x for x that are not positive: the same bits, with fewer instructions for 2^n.
fn wg_exp_below(x: f32) -> f32 {
  let c = select(x, -104.0f, x < -104.0f);
  let sum = c * 1.44269504f + 12582912.0f;
  let y = wg_exp_part(c, sum - 12582912.0f);
  // 2^(n + 24) is never too small; of n, the upper bits of the sum are shifted out.
  return y * bitcast<f32>((bitcast<i32>(sum) << 23u) + 1266679808) * 5.9604645e-8f;
}

// exp(c - n log 2)
fn wg_exp_part(c: f32, n: f32) -> f32 {
  // log(2) in two parts, the first of so few bits that its product with n is exact.
  let r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  var p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * (r * r) + r) + 1.0f;
}
