// p.sum
// from tokens.wg:32
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: matmul f32[10, 7]
//   x1: p.max f32[2, 5]
//   y0: p.exp f32[2, 5, 7]
//   y1: p.sum f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 70>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 10>;

const OUTER = 10u;
const INNER = 7u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[((o * 7u + r) / 35u) * 35u + (o % 5u) * 7u + r];
    let x_1 = x1[((o * 7u + r) / 35u) * 5u + (o % 5u)];
    let sub_0 = (x_0 - x_1);
    let exp_0 = exp(sub_0);
    sum_0 = (sum_0 + exp_0);
    y0[((o * 7u + r) / 35u) * 35u + (o % 5u) * 7u + r] = exp_0;
  }
  y1[o] = sum_0;
}
