// atan x. Beyond tan(π/8) and tan(3π/8) it is turned by π/4 or π/2; what is left is a polynomial.
// The comparisons are such that NaN stays NaN.
fn wg_atan(x: f32) -> f32 {
  let a = abs(x);
  let far = a > 2.4142135f;
  let middle = a > 0.41421357f && !far;
  let turned = select(select(a, (a - 1.0f) / (a + 1.0f), middle), -1.0f / a, far);
  let z = turned * turned;
  var p = 0.080537445f * z - 0.13877685f;
  p = p * z + 0.19977711f;
  p = p * z - 0.3333295f;
  let y = select(select(0.0f, 0.78539816f, middle), 1.5707964f, far) + (turned + turned * z * p);
  return select(y, -y, x < 0.0f);
}
