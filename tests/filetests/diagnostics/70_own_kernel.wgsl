// A softer line.
fn softer(x: f32) -> f32 {
  var n = 0;
  while (f32(n) < x) {
    n++;
  }
  return f32(n);
}
