// argmax
// from tokens.wg:29
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: matmul f32[10, 7], then loss.exp f32[2, 5, 7]
//   x1: labels i32[2, 5]
//   y0: loss.sum f32[2, 5]
//   y1: loss.sum_2 f32[2, 5]
//   y2: loss.sum_3 f32[2, 5]
//   y3: argmax i32[2, 5]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<i32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 10>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 10>;
@group(0) @binding(4) var<storage, read_write> y2: array<f32, 10>;
@group(0) @binding(5) var<storage, read_write> y3: array<i32, 10>;

const OUTER = 10u;
const INNER = 7u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var max_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 7u + r];
    max_0 = max(max_0, x_0);
  }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  var sum_2: f32 = 0.0f;
  var min_0: i32 = 2147483647i;
  let x_1 = x1[o];
  for (var r = 0u; r < INNER; r++) {
    let iota_0 = i32((r));
    let eq_0 = (iota_0 == x_1);
    let x_2 = x0[o * 7u + r];
    let sub_0 = (x_2 - max_0);
    let where_0 = select(0.0f, sub_0, eq_0);
    let exp_0 = exp(sub_0);
    let eq_1 = (x_2 == max_0);
    let where_1 = select(6i, iota_0, eq_1);
    sum_0 = (sum_0 + where_0);
    sum_1 = (sum_1 + sub_0);
    sum_2 = (sum_2 + exp_0);
    min_0 = min(min_0, where_1);
    x0[o * 7u + r] = exp_0;
  }
  y0[o] = sum_0;
  y1[o] = sum_1;
  y2[o] = sum_2;
  y3[o] = min_0;
}
