// loss.max
// from tokens.wg:27
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: labels i32[2, 5]
//   x1: matmul f32[10, 7]
//   y0: loss.sum f32[2, 5]
//   y1: loss.sum_2 f32[2, 5]
//   y2: loss.max f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 70>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 10>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 10>;
@group(0) @binding(4) var<storage, read_write> y2: array<f32, 10>;

const OUTER = 10u;
const INNER = 7u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  var max_0: f32 = (-3.4028234663852886e+38f);
  for (var r = 0u; r < INNER; r++) {
    let iota_0 = i32((r));
    let x_0 = x0[((o * 7u + r) / 35u) * 5u + (o % 5u)];
    let eq_0 = (iota_0 == x_0);
    let x_1 = x1[((o * 7u + r) / 35u) * 35u + (o % 5u) * 7u + r];
    let where_0 = select(0.0f, x_1, eq_0);
    sum_0 = (sum_0 + where_0);
    sum_1 = (sum_1 + x_1);
    max_0 = max(max_0, x_1);
  }
  y0[o] = sum_0;
  y1[o] = sum_1;
  y2[o] = max_0;
}
