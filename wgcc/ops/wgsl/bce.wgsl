// -t log p - (1 - t) log(1 - p), each logarithm at least -100; NaN for p outside 0 to 1.
fn wg_bce(p: f32, t: f32) -> f32 {
  let yes = wg_log(p);
  let no = wg_log1p(-p);
  return (t - 1.0f) * select(no, -100.0f, no < -100.0f) - t * select(yes, -100.0f, yes < -100.0f);
}
