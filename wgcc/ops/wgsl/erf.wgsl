// erf x: below 1 an odd polynomial, above it 1 - exp(-q(|x|)), q fitted to -log(1 - erf).
// From 4 on it is 1 in f32. The comparisons are such that NaN stays NaN.
fn wg_erf(x: f32) -> f32 {
  let a = select(abs(x), 4.0f, abs(x) > 4.0f);
  let z = a * a;
  var near = 0.00007889123f * z - 0.00080208422f;
  near = near * z + 0.0051895357f;
  near = near * z - 0.026854444f;
  near = near * z + 0.112836f;
  near = near * z - 0.37612626f;
  near = near * z + 1.1283791f;
  var q = -0.00019150414f * a + 0.0029995407f;
  q = q * a - 0.022051997f;
  q = q * a + 0.10356689f;
  q = q * a + 0.63760006f;
  q = q * a + 1.127426f;
  q = q * a + 0.00025644567f;
  let y = select(a * near, 1.0f - exp(-q), a >= 1.0f);
  return select(y, -y, x < 0.0f);
}
