// log(1 + x), accurate near 0: there 2 atanh(s) with s = x / (2 + x), as a polynomial in s.
fn wg_log1p(x: f32) -> f32 {
  if (x <= -0.34f || x >= 0.5f) {
    return wg_log(1.0f + x);
  }
  let s = x / (2.0f + x);
  let z = s * s;
  let p = (0.30553627f * z + 0.39948398f) * z + 0.66667044f;
  return 2.0f * s + s * z * p;
}
