// Whether x is neither infinite nor NaN, by its bits: adapters compute as if neither existed.
fn wg_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}
