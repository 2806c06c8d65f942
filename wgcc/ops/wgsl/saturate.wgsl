fn wg_saturate(x: f32) -> f32 {
  return wg_min(wg_max(x, 0.0f), 1.0f);
}
