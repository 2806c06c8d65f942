// p
// from tokens.wg:32
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: p.exp f32[2, 5, 7]
//   x1: p.sum f32[2, 5]
//   y0: p f32[2, 5, 7]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 70>;

const OUTER = 70u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[(o / 7u)];
  let div_0 = (x_0 / x_1);
  y0[o] = div_0;
}
