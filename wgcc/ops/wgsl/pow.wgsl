// x to the power z: small whole powers by multiplication (any x), others by exp and log (x > 0).
fn wg_pow(x: f32, z: f32) -> f32 {
  if (z == floor(z) && abs(z) <= 64.0f) {
    return wg_whole_pow(x, z);
  }
  if (x == 0.0f) {
    return select(select(z, 1.0f / abs(x), z < 0.0f), 0.0f, z > 0.0f);
  }
  // A negative number has integer powers only, but for -infinity.
  let base = select(abs(x), x, z != floor(z) && bitcast<u32>(x) != 0xff800000u);
  let size = select(wg_positive_pow(base, z), 1.0f, base == 1.0f);
  return select(size, -size, x < 0.0f && z == floor(z) && floor(0.5f * z) != 0.5f * z);
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

// The first 12 bits of x: products of two such numbers are exact.
fn wg_upper(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// 2^(z log2 x), with the logarithm in two parts: a result of 2^100 needs its exponent to 2^-31.
fn wg_positive_pow(x: f32, z: f32) -> f32 {
  let rough = z * wg_log(x);
  // Beyond f32, of infinity, NaN, or of a negative number.
  if (!(abs(rough) < 104.0f) || bitcast<u32>(x) >= 0x7f800000u || !(abs(z) < 1e30f)) {
    return exp(rough);
  }
  // x = m 2^e with m from sqrt(1/2) to sqrt(2), log2 m = 2 / log 2 (s + s³/3 + s⁵/5 …).
  let small = x < 1.17549435e-38f;
  let bits = bitcast<u32>(select(x, x * 8388608.0f, small));
  let exponent = bitcast<i32>(bits - 0x3f3504f3u) >> 23u;
  let e = f32(exponent - select(0, 23, small));
  let m = bitcast<f32>(bits - (bitcast<u32>(exponent) << 23u));
  let sum = m + 1.0f;
  let sum_high = wg_upper(sum);
  let s = (m - 1.0f) / sum;
  let s_high = wg_upper(s);
  let s_low = (((m - 1.0f) - s_high * sum_high) - s_high * (m - (sum_high - 1.0f))) / sum;
  let q = s * s;
  let fit = (((0.26230819f * q + 0.32059890f) * q + 0.41219858f) * q + 0.57707802f) * q + 0.96179669f;
  let series = s * q * fit;
  // 2 / log 2 = 2.884765625 + 6.2445678e-4, the first part in 12 bits.
  let log_high = s_high * 2.884765625f;
  let log_low = s_low * 2.884765625f + (s * 6.2445678e-4f + series);
  let total_high = wg_upper((e + log_high) + log_low);
  let total_low = log_low - ((total_high - e) - log_high);
  let z_high = wg_upper(z);
  let power_high = z_high * total_high;
  let power_low = (z - z_high) * total_high + z * total_low;
  let n = round(power_high + power_low);
  // 2^r, |r| <= 1/2.
  let r = (power_high - n) + power_low;
  var p = 1.5252734e-5f * r + 1.5403530e-4f;
  p = p * r + 1.3333558e-3f;
  p = p * r + 9.6181291e-3f;
  p = p * r + 5.5504109e-2f;
  p = p * r + 2.4022651e-1f;
  p = p * r + 6.9314718e-1f;
  let whole = i32(n);
  let half = whole >> 1u;
  // 2^n in two factors, because n reaches from -150 to 128.
  let y = p * r + 1.0f;
  return y * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((whole - half + 127) << 23u);
}
