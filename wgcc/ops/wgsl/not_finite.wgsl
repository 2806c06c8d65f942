// Infinity or NaN, by its bits, which are a variable because no constant may be either.
fn wg_not_finite(word: u32) -> f32 {
  var bits = word;
  return bitcast<f32>(bits);
}
