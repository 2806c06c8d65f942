// best
// from memory.wg:22
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: keep bool[6]
//   x1: ring f32[6, 3]
//   y0: best i32[3]
@group(0) @binding(0) var<storage, read> x0: array<u32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 18>;
@group(0) @binding(2) var<storage, read_write> y0: array<i32, 3>;

const OUTER = 3u;
const INNER = 6u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var max_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let inside_0 = r < 3u;
    let at_0 = select(0u, r * 2u, inside_0);
    let x_0 = x0[at_0] != 0u;
    let x_1 = x1[at_0 * 3u + o];
    let where_0 = select(0.0f, x_1, x_0);
    let piece_0 = select(0.0f, where_0, inside_0);
    let inside_1 = r >= 3u;
    let at_1 = select(0u, r - 3u, inside_1);
    let x_2 = x0[at_1 * 2u + 1u] != 0u;
    let x_3 = x1[at_1 * 6u + o + 3u];
    let where_1 = select(0.0f, x_3, x_2);
    let mul_0 = (where_1 * 2.0f);
    let piece_1 = select(piece_0, mul_0, inside_1);
    max_0 = max(max_0, piece_1);
  }
  var min_0: i32 = 2147483647i;
  for (var r = 0u; r < INNER; r++) {
    let inside_2 = r < 3u;
    let at_2 = select(0u, r * 2u, inside_2);
    let x_4 = x0[at_2] != 0u;
    let x_5 = x1[at_2 * 3u + o];
    let where_2 = select(0.0f, x_5, x_4);
    let piece_2 = select(0.0f, where_2, inside_2);
    let inside_3 = r >= 3u;
    let at_3 = select(0u, r - 3u, inside_3);
    let x_6 = x0[at_3 * 2u + 1u] != 0u;
    let x_7 = x1[at_3 * 6u + o + 3u];
    let where_3 = select(0.0f, x_7, x_6);
    let mul_1 = (where_3 * 2.0f);
    let piece_3 = select(piece_2, mul_1, inside_3);
    let eq_0 = (piece_3 == max_0);
    let iota_0 = i32((r));
    let where_4 = select(5i, iota_0, eq_0);
    min_0 = min(min_0, where_4);
  }
  y0[o] = min_0;
}
