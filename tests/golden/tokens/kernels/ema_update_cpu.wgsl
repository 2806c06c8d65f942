// ema_update
// from tokens.wg:28
// 6 x 1 x 1 workgroups of 64 threads (cpu)
//   y0: e: opt/opt/ema/tok.w, opt/opt/ema/mix.w, opt/opt/ema/back.w, opt/opt/ema/norm.g, opt/opt/ema/norm.b, opt/opt/ema/mix.b
//   x0: p: tok.w.new, mix.w.new, back.w.new, norm.g.new, norm.b.new, mix.b.new
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 328>;
@group(0) @binding(1) var<storage, read> x0: array<f32, 328>;

const SIZE = 328u;
const WORKGROUP = 64u;

// Element by element, whatever tensor it belongs to.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  var e = y0[i];
  var p = x0[i];
  e = e + 0.010000000000000009f * (p - e);
  y0[i] = e;
}
