// min(x, y), but NaN where one of them is NaN, by their bits: that of WGSL may be the other one.
fn wg_min(x: f32, y: f32) -> f32 {
  let smaller = bitcast<u32>(min(x, y));
  let bits = max(bitcast<u32>(x) & 0x7fffffffu, bitcast<u32>(y) & 0x7fffffffu);
  return bitcast<f32>(select(smaller, bits, bits > 0x7f800000u));
}
