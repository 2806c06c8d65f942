// argmax.min
// from tokens.wg:29
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: matmul f32[10, 7]
//   x1: labels i32[2, 5]
//   y0: loss.peak f32[2, 5]
//   y1: loss.sum f32[2, 5]
//   y2: loss.sum_2 f32[2, 5]
//   y3: loss.log f32[2, 5]
//   y4: argmax.min i32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<i32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 10>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 10>;
@group(0) @binding(4) var<storage, read_write> y2: array<f32, 10>;
@group(0) @binding(5) var<storage, read_write> y3: array<f32, 10>;
@group(0) @binding(6) var<storage, read_write> y4: array<i32, 10>;

const OUTER = 10u;
const INNER = 7u;
const WORKGROUP = 64u;

// log x. Some adapters give a finite number for x <= 0, which would hide mistakes: here 0 gives
// -infinity and anything below (or NaN) NaN. The bits are a variable because no constant may be
// infinite.
fn wg_log(x: f32) -> f32 {
  if (x > 0.0f) {
    return log(x);
  }
  var bits = select(0x7fc00000u, 0xff800000u, x == 0.0f);
  return bitcast<f32>(bits);
}

// Whether x is NaN, by its bits: adapters compute as if there were none.
fn wg_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

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
  var sum_1: f32 = 0.0f;
  var sum_2: f32 = 0.0f;
  var min_0: i32 = 2147483647i;
  let x_1 = x1[o];
  for (var r = 0u; r < INNER; r++) {
    let iota_0 = i32(r);
    let eq_0 = (iota_0 == x_1);
    let x_2 = x0[o * 7u + r];
    let sub_0 = (x_2 - peak_0);
    let where_0 = select(0.0f, sub_0, eq_0);
    let exp_0 = exp(sub_0);
    let is_nan_0 = wg_nan(x_2);
    let sub_1 = (iota_0 - 7i);
    let eq_1 = (x_2 == peak_0);
    let where_1 = select(7i, iota_0, eq_1);
    let where_2 = select(where_1, sub_1, is_nan_0);
    sum_0 = (sum_0 + where_0);
    sum_1 = (sum_1 + sub_0);
    sum_2 = (sum_2 + exp_0);
    min_0 = min(min_0, where_2);
  }
  let log_0 = wg_log(sum_2);
  y0[o] = peak_0;
  y1[o] = sum_0;
  y2[o] = sum_1;
  y3[o] = log_0;
  y4[o] = min_0;
}
