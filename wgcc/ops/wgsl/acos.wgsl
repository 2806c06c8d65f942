// acos x: near ±1 by the asin of √((1 - |x|) / 2), which is exact where π/2 - asin x is not.
fn wg_acos(x: f32) -> f32 {
  let a = abs(x);
  let near_one = 2.0f * wg_asin(sqrt(max(0.5f * (1.0f - a), 0.0f)));
  let far = select(near_one, 3.1415927f - near_one, x < 0.0f);
  let angle = wg_asin(x);
  return select(1.5707964f - angle, far, a > 0.5f && a <= 1.0f);
}
