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

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var max_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let inside_0 = r < 3u;
    let at_0 = select(0u, r * 6u + o, inside_0);
    let x_0 = x0[at_0];
    let piece_0 = select(0.0f, x_0, inside_0);
    let inside_1 = r >= 3u;
    let at_1 = select(0u, r * 3u + o - 9u, inside_1);
    let x_1 = x1[at_1];
    let piece_1 = select(piece_0, x_1, inside_1);
    max_0 = max(max_0, piece_1);
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
    let eq_0 = (piece_3 == max_0);
    let iota_0 = i32((r));
    let where_0 = select(5i, iota_0, eq_0);
    min_0 = min(min_0, where_0);
  }
  y0[o] = min_0;
}
