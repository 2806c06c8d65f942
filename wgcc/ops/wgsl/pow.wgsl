// x to the power z: small whole powers by multiplication (any x), others by exp and log (x > 0).
fn wg_pow(x: f32, z: f32) -> f32 {
  if (z == floor(z) && abs(z) <= 64.0f) {
    return wg_whole_pow(x, z);
  }
  if (x == 0.0f) {
    return select(1.0f / x, 0.0f, z > 0.0f);
  }
  // A negative number has integer powers only.
  let size = exp(z * wg_log(select(abs(x), x, z != floor(z))));
  return select(size, -size, x < 0.0f && floor(0.5f * z) != 0.5f * z);
}

fn wg_whole_pow(x: f32, z: f32) -> f32 {
  var result = 1.0f;
  var square = x;
  for (var n = u32(abs(z)); n > 0u; n = n >> 1u) {
    if ((n & 1u) == 1u) {
      result = result * square;
    }
    square = square * square;
  }
  return select(result, 1.0f / result, z < 0.0f);
}
