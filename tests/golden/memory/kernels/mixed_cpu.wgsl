// mixed
// from memory.wg:21
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: keep bool[6]
//   x1: ring f32[6, 3]
//   y0: mixed f32[3, 2]
@group(0) @binding(0) var<storage, read> x0: array<u32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 18>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 6>;

const OUTER = 6u;
const INNER = 3u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var max_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let inside_0 = (o % 2u) * 3u + r < 3u;
    let at_0 = select(0u, (o % 2u) * 6u + r * 2u, inside_0);
    let x_0 = x0[at_0] != 0u;
    let x_1 = x1[at_0 * 3u + (o / 2u)];
    let where_0 = select(0.0f, x_1, x_0);
    let piece_0 = select(0.0f, where_0, inside_0);
    let inside_1 = (o % 2u) * 3u + r >= 3u;
    let at_1 = select(0u, (o % 2u) * 3u + r - 3u, inside_1);
    let x_2 = x0[at_1 * 2u + 1u] != 0u;
    let x_3 = x1[at_1 * 6u + (o / 2u) + 3u];
    let where_1 = select(0.0f, x_3, x_2);
    let mul_0 = (where_1 * 2.0f);
    let piece_1 = select(piece_0, mul_0, inside_1);
    max_0 = max(max_0, piece_1);
  }
  y0[o] = max_0;
}
