fn wg_mix(x: f32, y: f32, weight: f32) -> f32 {
  return x * (1.0f - weight) + y * weight;
}
