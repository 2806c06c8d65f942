// norm.layer_norm
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: norm.layer_norm.sub f32[2, 5, 4]
//   x1: norm.layer_norm.sum_3 f32[2, 5]
//   y0: norm.layer_norm.mul f32[2, 5, 4]
//   x2: norm.g f32[4]
//   x3: norm.b f32[4]
//   y1: norm.layer_norm f32[2, 5, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 40>;
@group(0) @binding(3) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(4) var<storage, read> x3: array<f32, 4>;
@group(0) @binding(5) var<storage, read_write> y1: array<f32, 40>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[(o / 4u)];
  let mul_0 = (x_1 * 0.25f);
  let add_0 = (mul_0 + 1e-05f);
  let rsqrt_0 = inverseSqrt(add_0);
  let mul_1 = (x_0 * rsqrt_0);
  let x_2 = x2[(o % 4u)];
  let mul_2 = (mul_1 * x_2);
  let x_3 = x3[(o % 4u)];
  let add_1 = (mul_2 + x_3);
  y0[o] = mul_1;
  y1[o] = add_1;
}
