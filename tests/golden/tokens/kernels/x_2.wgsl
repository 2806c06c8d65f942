// x_2
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: ids i32[2, 5]
//   x1: tok.w f32[7, 4]
//   x2: back.matmul f32[10, 4]
//   y0: x_2 f32[2, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 28>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 40>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 40>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[(o / 4u)];
  let row_0 = u32(clamp(x_0, 0, 6));
  let x_1 = x1[row_0 * 4u + (o % 4u)];
  let x_2 = x2[o];
  let add_0 = (x_1 + x_2);
  y0[o] = add_0;
}
