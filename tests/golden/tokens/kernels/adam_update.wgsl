// adam_update
// from tokens.wg:28
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   y0: p: tok.w, mix.w, back.w
//   x0: g: d.tok.w, d.mix.w, d.back.w
//   y1: m: opt/opt/exp_avg/tok.w, opt/opt/exp_avg/mix.w, opt/opt/exp_avg/back.w
//   y2: v: opt/opt/exp_avg_sq/tok.w, opt/opt/exp_avg_sq/mix.w, opt/opt/exp_avg_sq/back.w
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 40>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 40>;
@group(0) @binding(2) var<storage, read_write> y1: array<vec4f, 40>;
@group(0) @binding(3) var<storage, read_write> y2: array<vec4f, 40>;
@group(0) @binding(4) var<storage, read> scalars: array<u32, 8>;

const SIZE = 40u;
const WORKGROUP = 256u;

// min(x, y), but NaN where one of them is NaN, by their bits: that of WGSL may be the other one.
fn wg_min(x: f32, y: f32) -> f32 {
  let smaller = bitcast<u32>(min(x, y));
  let bits = max(bitcast<u32>(x) & 0x7fffffffu, bitcast<u32>(y) & 0x7fffffffu);
  return bitcast<f32>(select(smaller, bits, bits > 0x7f800000u));
}

// Element by element, whatever tensor it belongs to; a thread makes four of them.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  let x_0 = bitcast<f32>(scalars[6u]);
  let x_1 = bitcast<f32>(scalars[7u]);
  let x_2 = bitcast<f32>(scalars[3u]);
  let add_0 = (x_2 + 1e-06f);
  let reciprocal_0 = (1.0f / add_0);
  let minimum_0 = wg_min(reciprocal_0, 1.0f);
  let x_3 = bitcast<f32>(scalars[5u]);
  let mul_0 = (x_3 * 0.1f);
  let step_size = x_0;
  let correction = x_1;
  let scale = minimum_0;
  let decay = mul_0;
  var p = y0[i];
  var g = x0[i];
  var m = y1[i];
  var v = y2[i];
  g = g * scale;
  p = p - decay * p;
  m = m + 0.09999999999999998f * (g - m);
  v = 0.999f * v + 0.0010000000000000009f * g * g;
  p = p - step_size * m / (sqrt(v) * correction + 1e-08f);
  y0[i] = p;
  y1[i] = m;
  y2[i] = v;
}
