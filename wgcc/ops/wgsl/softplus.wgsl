// log(1 + exp(x)) without overflow.
fn wg_softplus(x: f32) -> f32 {
  return select(x, 0.0f, x < 0.0f) + wg_log1p(exp(-abs(x)));
}
