// The angle of the point (x, y): the quotient that is at most 1 never overflows.
fn wg_atan2(y: f32, x: f32) -> f32 {
  let a = abs(x);
  let b = abs(y);
  let steep = b > a;
  let large = select(a, b, steep);
  let small = select(b, a, steep);
  // At the origin the angle is 0; (infinity, infinity) is on the diagonal.
  let slope = select(small / select(large, 1.0f, large == 0.0f), 1.0f, small == large && large > 0.0f);
  let first = wg_atan(slope);
  let upper = select(first, 1.5707964f - first, steep);
  let turned = select(upper, 3.1415927f - upper, x < 0.0f);
  return select(turned, -turned, y < 0.0f);
}
