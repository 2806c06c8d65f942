// cosh x, by exp(x/2)², so that it overflows where the result does.
fn wg_cosh(x: f32) -> f32 {
  let half = exp(0.5f * abs(x));
  return (0.5f * half) * half + (0.5f / half) / half;
}
