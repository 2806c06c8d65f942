// d.v
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.attention.attention_grad_kv f32[1, 1, 5, 8]
//   y0: d.k.copy f32[1, 5, 4]
//   y1: d.v.copy f32[1, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 20>;
@group(0) @binding(2) var<storage, read_write> y1: array<f32, 20>;

const OUTER = 20u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[(o / 4u) * 8u + (o % 4u)];
  let copy_0 = x_0;
  let x_1 = x0[(o / 4u) * 8u + (o % 4u) + 4u];
  let copy_1 = x_1;
  y0[o] = copy_0;
  y1[o] = copy_1;
}
