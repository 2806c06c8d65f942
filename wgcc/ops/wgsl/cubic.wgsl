// The weight of a pixel at distance d in cubic interpolation (Keys, with a = -0.75).
fn wg_cubic(d: f32) -> f32 {
  let near = (1.25f * d - 2.25f) * d * d + 1.0f;
  let far = ((d - 5.0f) * d + 8.0f) * d * -0.75f + 3.0f;
  return select(near, far, d > 1.0f);
}
