fn wg_step(edge: f32, x: f32) -> f32 {
  return select(0.0f, 1.0f, edge <= x);
}
