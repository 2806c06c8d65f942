// log(1 + exp(x)) = max(x, 0) + log(1 + e), e = exp(-|x|), without branches: with s = e / (2 + e),
// log(1 + e) is 2 atanh(s), and 2 s = e - s e.
fn wg_softplus(x: f32) -> f32 {
  let e = wg_exp_below(-abs(x));
  let s = e / (2.0f + e);
  let z = s * s;
  var p = 0.2801241f * z + 0.28001726f;
  p = p * z + 0.40021533f;
  p = p * z + 0.6666642f;
  return select(x, 0.0f, x < 0.0f) + (e + s * (z * p - e));
}
