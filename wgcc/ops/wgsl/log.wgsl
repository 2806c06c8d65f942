// log x. Some adapters give a finite number for x <= 0, which would hide mistakes: here 0 gives
// -infinity and anything below (or NaN) NaN. The bits are a variable because no constant may be
// infinite.
fn wg_log(x: f32) -> f32 {
  if (x > 0.0f) {
    return log(x);
  }
  var bits = select(0x7fc00000u, 0xff800000u, x == 0.0f);
  return bitcast<f32>(bits);
}
