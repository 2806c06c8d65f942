// The nearest f16 number, ties to even; quantizeToF16 does not round exactly on every adapter.
fn wg_round_f16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let size = abs(x);
  if (size < 6.103515625e-5f) { return sign(x) * round(size * 16777216.0f) * 5.9604644775390625e-8f; }
  let rounded = (bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u;
  // NaN, which is above infinity, stays what it is.
  let overflow = (rounded & 0x7fffffffu) >= 0x47800000u && (bits & 0x7fffffffu) <= 0x7f800000u;
  return bitcast<f32>(select(rounded, (bits & 0x80000000u) | 0x7f800000u, overflow));
}
