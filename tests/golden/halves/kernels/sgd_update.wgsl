// sgd_update
// from halves.wg:15
// 2 x 1 x 1 workgroups of 256 threads (gpu)
//   y0: p: l2.w, l1.w, l1.b, l3.w
//   x0: g: d.l2.w, d.l1.w, d.l1.b, d.l3.w.copy
//   y1: p as f16, where products load it
enable f16;

@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 312>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 312>;
@group(0) @binding(2) var<storage, read_write> y1: array<vec4h, 256>;

const SIZE = 312u;
const WORKGROUP = 256u;

// Element by element, whatever tensor it belongs to; a thread makes four of them.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  let lr = 0.1f;
  let scale = 0.0009765625f;
  var p = y0[i];
  var g = x0[i];
  g = g * scale;
  p = p - lr * g;
  y0[i] = p;
  if (i < 256u) { y1[i] = vec4h(p); }
}
