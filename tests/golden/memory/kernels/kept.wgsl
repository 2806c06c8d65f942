// kept
// from memory.wg:19
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: keep bool[6]
//   x1: ring f32[6, 3]
//   y0: kept f32[6, 3]
@group(0) @binding(0) var<storage, read> x0: array<u32, 2>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 18>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 18>;

const OUTER = 18u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = extractBits(x0[(o / 12u)], ((o / 3u) % 4u) * 8u, 8u) != 0u;
  let x_1 = x1[o];
  let where_0 = select(0.0f, x_1, x_0);
  y0[o] = where_0;
}
