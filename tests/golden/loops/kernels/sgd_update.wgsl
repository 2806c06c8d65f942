// sgd_update
// from loops.wg:32
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   y0: p: cell.wx.w, cell.wx.b, cell.wh.w, out.w, out.b
//   x0: g: d.cell.wx.w, d.cell.wx.b, d.cell.wh.w, d.out.w.copy, d.out.b
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 81>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 81>;

const SIZE = 81u;
const WORKGROUP = 256u;

// Element by element, whatever tensor it belongs to; a thread makes four of them.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  let lr = 0.01f;
  let scale = 1.0f;
  var p = y0[i];
  var g = x0[i];
  g = g * scale;
  p = p - lr * g;
  y0[i] = p;
}
