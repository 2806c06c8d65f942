// 1 / (1 + exp(-x)) without overflow: exp only of numbers up to 0.
fn wg_sigmoid(x: f32) -> f32 {
  let e = exp(-abs(x));
  let y = select(1.0f, e, x < 0.0f) / (1.0f + e);
  // exp of NaN is not NaN on every adapter.
  return select(x, y, x == x);
}
