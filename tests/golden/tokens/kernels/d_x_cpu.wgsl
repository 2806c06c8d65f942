// d.x
// from tokens.wg:13
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: d.mix.reshape f32[10, 4]
//   x1: norm.g f32[4]
//   x2: norm.layer_norm.mul_8 f32[2, 5, 4]
//   x3: d.reshape f32[10, 4], then d.x f32[2, 5, 4]
//   x4: norm.layer_norm.rsqrt f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 4>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 40>;
@group(0) @binding(3) var<storage, read_write> x3: array<f32, 40>;
@group(0) @binding(4) var<storage, read> x4: array<f32, 10>;

const OUTER = 10u;
const INNER = 4u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 4u + r];
    let x_1 = x1[r];
    let mul_0 = (x_0 * x_1);
    let x_2 = x2[o * 4u + r];
    let mul_1 = (mul_0 * x_2);
    sum_0 = (sum_0 + mul_0);
    sum_1 = (sum_1 + mul_1);
  }
  let mul_3 = (sum_0 * 0.25f);
  let mul_4 = (sum_1 * 0.25f);
  let x_7 = x4[o];
  for (var r = 0u; r < INNER; r++) {
    let x_3 = x3[o * 4u + r];
    let x_4 = x0[o * 4u + r];
    let x_5 = x1[r];
    let mul_2 = (x_4 * x_5);
    let sub_0 = (mul_2 - mul_3);
    let x_6 = x2[o * 4u + r];
    let mul_5 = (x_6 * mul_4);
    let sub_1 = (sub_0 - mul_5);
    let mul_6 = (sub_1 * x_7);
    let add_0 = (x_3 + mul_6);
    x3[o * 4u + r] = add_0;
  }
}
