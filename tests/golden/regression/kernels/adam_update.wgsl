// adam_update
// from regression.wg:15
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   y0: p: l1.w, l1.b, l2.w, l2.b
//   x0: g: d.l1.w, d.l1.b, d.l2.w.copy, d.l2.b
//   y1: m: opt/opt/exp_avg/l1.w, opt/opt/exp_avg/l1.b, opt/opt/exp_avg/l2.w, opt/opt/exp_avg/l2.b
//   y2: v: opt/opt/exp_avg_sq/l1.w, opt/opt/exp_avg_sq/l1.b, opt/opt/exp_avg_sq/l2.w, opt/opt/exp_avg_sq/l2.b
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 49>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 49>;
@group(0) @binding(2) var<storage, read_write> y1: array<vec4f, 49>;
@group(0) @binding(3) var<storage, read_write> y2: array<vec4f, 49>;
@group(0) @binding(4) var<storage, read> scalars: array<u32, 4>;

const SIZE = 49u;
const WORKGROUP = 256u;

// Element by element, whatever tensor it belongs to; a thread makes four of them.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  let x_0 = bitcast<f32>(scalars[2u]);
  let x_1 = bitcast<f32>(scalars[3u]);
  let step_size = x_0;
  let correction = x_1;
  let scale = 1.0f;
  var p = y0[i];
  var g = x0[i];
  var m = y1[i];
  var v = y2[i];
  g = g * scale;
  m = m + 0.09999999999999998f * (g - m);
  v = 0.999f * v + 0.0010000000000000009f * g * g;
  p = p - step_size * m / (sqrt(v) * correction + 1e-08f);
  y0[i] = p;
  y1[i] = m;
  y2[i] = v;
}
