// 1 / (1 + exp(-x)) without overflow: exp only of numbers up to 0.
fn wg_sigmoid(x: f32) -> f32 {
  let e = wg_exp_below(-abs(x));
  return select(1.0f, e, x < 0.0f) / (1.0f + e);
}
