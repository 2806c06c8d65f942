// sgd_update
// from attention.wg:17
// 3 x 1 x 1 workgroups of 64 threads (cpu)
//   y0: p: q, k, v
//   x0: g: d.q.copy, d.k.copy, d.v.copy
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 148>;
@group(0) @binding(1) var<storage, read> x0: array<f32, 148>;

const SIZE = 148u;
const WORKGROUP = 64u;

// Element by element, whatever tensor it belongs to.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  let lr = 0.1f;
  let scale = 1.0f;
  var p = y0[i];
  var g = x0[i];
  g = g * scale;
  p = p - lr * g;
  y0[i] = p;
}
