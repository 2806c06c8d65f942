// mul
// from memory.wg:20
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: kept f32[6, 3]
//   y0: mul f32[3, 3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 9>;

const OUTER = 9u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[(o / 3u) * 6u + (o % 3u) + 3u];
  let mul_0 = (x_0 * 2.0f);
  y0[o] = mul_0;
}
