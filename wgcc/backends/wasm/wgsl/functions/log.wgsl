// log x for every x: of m 2^e with m from sqrt(1/2) to sqrt(2) it is e log 2 + log m.
fn log(x: f32) -> f32 {
  let small = x < 1.17549435e-38f;
  let bits = bitcast<u32>(select(x, x * 8388608.0f, small));
  let exponent = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
  let m = bitcast<f32>(bits - (bitcast<u32>(exponent) << 23u)) - 1.0f;
  let e = f32(exponent - select(0, 23, small));
  let z = m * m;
  var p = 7.0376836292e-2f * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  let y = m + (m * z * p - e * 2.12194440e-4f - 0.5f * z) + e * 0.693359375f;
  // Infinity stays; 0 gives -infinity and anything below (or NaN) NaN.
  let special = bitcast<f32>(select(0x7fc00000u, 0xff800000u, x == 0.0f));
  return select(special, select(y, x, x > 3.4028234e38f), x > 0.0f);
}

fn wg_log(x: f32) -> f32 {
  return log(x);
}
