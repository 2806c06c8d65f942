// mixed
// from memory.wg:21
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: kept f32[6, 3]
//   x1: mul f32[3, 3]
//   y0: mixed f32[3, 2]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 9>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 6>;

const OUTER = 6u;
const INNER = 3u;
const WORKGROUP = 64u;

// max(x, y), but NaN where one of them is NaN, by their bits: that of WGSL may be the other one.
fn wg_max(x: f32, y: f32) -> f32 {
  let larger = bitcast<u32>(max(x, y));
  let bits = max(bitcast<u32>(x) & 0x7fffffffu, bitcast<u32>(y) & 0x7fffffffu);
  return bitcast<f32>(select(larger, bits, bits > 0x7f800000u));
}

// Infinity or NaN, by its bits, which are a variable because no constant may be either.
fn wg_not_finite(word: u32) -> f32 {
  var bits = word;
  return bitcast<f32>(bits);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var max_0: f32 = wg_not_finite(0xff800000u);
  for (var r = 0u; r < INNER; r++) {
    let inside_0 = (o % 2u) * 3u + r < 3u;
    let at_0 = select(0u, (o % 2u) * 18u + r * 6u + (o / 2u), inside_0);
    let x_0 = x0[at_0];
    let piece_0 = select(0.0f, x_0, inside_0);
    let inside_1 = (o % 2u) * 3u + r >= 3u;
    let at_1 = select(0u, (o % 2u) * 9u + r * 3u + (o / 2u) - 9u, inside_1);
    let x_1 = x1[at_1];
    let piece_1 = select(piece_0, x_1, inside_1);
    max_0 = wg_max(max_0, piece_1);
  }
  y0[o] = max_0;
}
