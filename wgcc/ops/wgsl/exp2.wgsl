fn wg_exp2(x: f32) -> f32 {
  return wg_pow(2.0f, x);
}
