// mul
// from memory.wg:12
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: row f32[3]
//   x1: scale f32[3]
//   y0: mul f32[3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 3>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 3>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 3>;

const OUTER = 3u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[o];
  let mul_0 = (x_0 * x_1);
  y0[o] = mul_0;
}
