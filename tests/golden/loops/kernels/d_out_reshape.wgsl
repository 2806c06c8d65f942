// d.out.reshape
// from loops.wg:31
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: repeat_3 f32[6, 2, 5]
//   x1: out.w f32[5, 1]
//   x2: out.b f32[1]
//   x3: y f32[2, 6, 1]
//   y0: d.out.reshape f32[12, 5]
//   y1: out.matmul.sum f32[12]
//   y2: d.sub f32[2, 6, 1]
@group(0) @binding(0) var<storage, read> x0: array<f32, 420>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 5>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 1>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 12>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 60>;
@group(0) @binding(5) var<storage, read_write> y1: array<f32, 12>;
@group(0) @binding(6) var<storage, read_write> y2: array<f32, 12>;

const OUTER = 12u;
const INNER = 5u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[(o % 6u) * 10u + (o / 6u) * 5u + r];
    let x_1 = x1[r];
    let mul_0 = (x_0 * x_1);
    sum_0 = (sum_0 + mul_0);
  }
  let x_2 = x2[0u];
  let add_0 = (sum_0 + x_2);
  let x_3 = x3[o];
  let sub_0 = (add_0 - x_3);
  let mul_1 = (sub_0 * 2.0f);
  let mul_2 = (0.08333333333333333f * mul_1);
  for (var r = 0u; r < INNER; r++) {
    let x_4 = x1[r];
    let mul_3 = (mul_2 * x_4);
    y0[o * 5u + r] = mul_3;
  }
  y1[o] = sum_0;
  y2[o] = mul_2;
}
