// For z = x² up to 1/4.
fn wg_asin_near(x: f32, z: f32) -> f32 {
  var p = 0.0421632f * z + 0.024181312f;
  p = p * z + 0.045470025f;
  p = p * z + 0.074953f;
  p = p * z + 0.16666752f;
  return x + x * z * p;
}

// asin x: near 1 it is π/2 - 2 asin √((1 - x) / 2). Beyond 1 it is NaN; the bits are a variable
// because no constant may be NaN.
fn wg_asin(x: f32) -> f32 {
  let a = abs(x);
  let far = a > 0.5f;
  let z = select(a * a, 0.5f * (1.0f - a), far);
  let near = wg_asin_near(select(a, sqrt(max(z, 0.0f)), far), z);
  let y = select(near, 1.5707964f - 2.0f * near, far);
  var nan = 0x7fc00000u;
  return select(bitcast<f32>(nan), select(y, -y, x < 0.0f), a <= 1.0f);
}
