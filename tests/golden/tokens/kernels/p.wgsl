// p
// from tokens.wg:32
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: matmul f32[10, 7]
//   y0: p f32[2, 5, 7]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 70>;

const OUTER = 10u;
const INNER = 7u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var peak_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 7u + r];
    peak_0 = max(peak_0, x_0);
  }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_1 = x0[o * 7u + r];
    let sub_0 = (x_1 - peak_0);
    let exp_0 = exp(sub_0);
    sum_0 = (sum_0 + exp_0);
  }
  for (var r = 0u; r < INNER; r++) {
    let x_2 = x0[o * 7u + r];
    let sub_1 = (x_2 - peak_0);
    let exp_1 = exp(sub_1);
    let div_0 = (exp_1 / sum_0);
    y0[o * 7u + r] = div_0;
  }
}
