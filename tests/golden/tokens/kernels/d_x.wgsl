// d.x
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.reshape f32[10, 4]
//   x1: d.mix.reshape f32[10, 4]
//   x2: norm.g f32[4]
//   x3: d.norm.layer_norm.sum_4 f32[2, 5]
//   x4: norm.layer_norm.mul f32[2, 5, 4]
//   x5: d.norm.layer_norm.sum_5 f32[2, 5]
//   x6: norm.layer_norm.sum_3 f32[2, 5]
//   y0: d.x f32[2, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 10>;
@group(0) @binding(4) var<storage, read> x4: array<f32, 40>;
@group(0) @binding(5) var<storage, read> x5: array<f32, 10>;
@group(0) @binding(6) var<storage, read> x6: array<f32, 10>;
@group(0) @binding(7) var<storage, read_write> y0: array<f32, 40>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[o];
  let x_2 = x2[(o % 4u)];
  let mul_0 = (x_1 * x_2);
  let x_3 = x3[(o / 4u)];
  let mul_1 = (x_3 * 0.25f);
  let sub_0 = (mul_0 - mul_1);
  let x_4 = x4[o];
  let x_5 = x5[(o / 4u)];
  let mul_2 = (x_5 * 0.25f);
  let mul_3 = (x_4 * mul_2);
  let sub_1 = (sub_0 - mul_3);
  let x_6 = x6[(o / 4u)];
  let mul_4 = (x_6 * 0.25f);
  let add_0 = (mul_4 + 1e-05f);
  let rsqrt_0 = inverseSqrt(add_0);
  let mul_5 = (sub_1 * rsqrt_0);
  let add_1 = (x_0 + mul_5);
  y0[o] = add_1;
}
