// best
// from memory.wg:22
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: kept f32[6, 3]
//   x1: mul f32[3, 3]
//   y0: best i32[3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 9>;
@group(0) @binding(2) var<storage, read_write> y0: array<i32, 3>;

const OUTER = 3u;
const INNER = 6u;
const WORKGROUP = 64u;

// The remainder that has the divisor's sign; x where the divisor is 0.
fn wg_mod_i32(x: i32, z: i32) -> i32 {
  if (z == 0) { return x; }
  let r = x % z;
  return select(r, r + z, r != 0 && (r < 0) != (z < 0));
}

// Whether x is NaN, by its bits: adapters compute as if there were none.
fn wg_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var peak_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let inside_0 = r < 3u;
    let at_0 = select(0u, r * 6u + o, inside_0);
    let x_0 = x0[at_0];
    let piece_0 = select(0.0f, x_0, inside_0);
    let inside_1 = r >= 3u;
    let at_1 = select(0u, r * 3u + o - 9u, inside_1);
    let x_1 = x1[at_1];
    let piece_1 = select(piece_0, x_1, inside_1);
    peak_0 = max(peak_0, piece_1);
  }
  var min_0: i32 = 2147483647i;
  for (var r = 0u; r < INNER; r++) {
    let inside_2 = r < 3u;
    let at_2 = select(0u, r * 6u + o, inside_2);
    let x_2 = x0[at_2];
    let piece_2 = select(0.0f, x_2, inside_2);
    let inside_3 = r >= 3u;
    let at_3 = select(0u, r * 3u + o - 9u, inside_3);
    let x_3 = x1[at_3];
    let piece_3 = select(piece_2, x_3, inside_3);
    let is_nan_0 = wg_nan(piece_3);
    let iota_0 = i32(r);
    let sub_0 = (iota_0 - 6i);
    let eq_0 = (piece_3 == peak_0);
    let where_0 = select(6i, iota_0, eq_0);
    let where_1 = select(where_0, sub_0, is_nan_0);
    min_0 = min(min_0, where_1);
  }
  let add_0 = (min_0 + 6i);
  let mod_0 = wg_mod_i32(add_0, 6i);
  y0[o] = mod_0;
}
