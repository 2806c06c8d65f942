// Whether x is NaN, by its bits: adapters compute as if there were none.
fn wg_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
