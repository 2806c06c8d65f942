// (exp(x) - the first `order` terms of its series) / x^order: near 0 the rest of the series,
// elsewhere each order from the one before it, which loses digits near 0.
fn wg_exp_tail(x: f32, order: u32) -> f32 {
  let k = f32(order);
  var y = 1.0f;
  var term = 1.0f;
  if (abs(x) < max(k, 1.0f)) {
    for (var i = 16.0f; i > 0.0f; i -= 1.0f) {
      y = y * x / (k + i) + 1.0f;
    }
    for (var i = 2.0f; i <= k; i += 1.0f) {
      y /= i;
    }
    return y;
  }
  y = exp(x);
  for (var i = 1.0f; i <= k; i += 1.0f) {
    y = (y - term) / x;
    term /= i;
  }
  return y;
}
