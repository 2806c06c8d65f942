fn wg_smoothstep(low: f32, high: f32, x: f32) -> f32 {
  let t = clamp((x - low) / (high - low), 0.0f, 1.0f);
  return t * t * (3.0f - 2.0f * t);
}
