// sinh x = (e + e / (e + 1)) / 2 with e = exp|x| - 1; large x by exp(x/2)², so that it overflows
// where the result does.
fn wg_sinh(x: f32) -> f32 {
  let a = abs(x);
  let e = wg_expm1(select(a, 20.0f, a > 20.0f));
  let half = exp(0.5f * a);
  let y = select(0.5f * (e + e / (e + 1.0f)), (0.5f * half) * half, a > 20.0f);
  return select(y, -y, x < 0.0f);
}
