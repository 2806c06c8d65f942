// d.tok.w
// from tokens.wg:12
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.transpose f32[4, 7]
//   x1: d.x.gather_grad f32[7, 4]
//   y0: d.tok.w f32[7, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 28>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 28>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 28>;

const OUTER = 28u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[(o % 4u) * 7u + (o / 4u)];
  let x_1 = x1[o];
  let add_0 = (x_0 + x_1);
  y0[o] = add_0;
}
