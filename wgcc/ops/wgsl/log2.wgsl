fn wg_log2(x: f32) -> f32 {
  return wg_log(x) * 1.44269504f;
}
