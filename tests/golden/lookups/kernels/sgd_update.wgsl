// sgd_update
// from lookups.wg:13
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   y0: p: w
//   x0: g: d.w
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 40>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 40>;

const SIZE = 40u;
const WORKGROUP = 256u;

// Element by element, whatever tensor it belongs to; a thread makes four of them.
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
