// opt.correction
// from regression.wg:15
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l2.matmul.sum f32[6]
//   x1: l2.b f32[1]
//   x2: y f32[6, 1]
//   x3: d.sub f32[6, 1]
//   scalars: values of one element
//   y0: d.l2.b f32[1]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 1>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 6>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 6>;
@group(0) @binding(4) var<storage, read_write> scalars: array<u32, 4>;
@group(0) @binding(5) var<storage, read_write> y0: array<f32, 1>;

const OUTER = 1u;
const INNER = 6u;
const WORKGROUP = 64u;

// exp(x) - 1, accurate near 0: there a polynomial.
fn wg_expm1(x: f32) -> f32 {
  var p = 0.00019993183f * x + 0.0013997447f;
  p = p * x + 0.008333072f;
  p = p * x + 0.041665316f;
  p = p * x + 0.16666669f;
  p = p * x + 0.5f;
  return select(x + x * x * p, exp(x) - 1.0f, abs(x) >= 0.5f);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  let x_1 = x1[0u];
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let add_0 = (x_0 + x_1);
    let x_2 = x2[r];
    let sub_0 = (add_0 - x_2);
    let square_0 = (sub_0 * sub_0);
    let x_3 = x3[r];
    sum_0 = (sum_0 + square_0);
    sum_1 = (sum_1 + x_3);
  }
  let mul_0 = (sum_0 * 0.16666666666666666f);
  let x_4 = scalars[0u];
  let add_1 = (x_4 + 1u);
  let cast_0 = f32(add_1);
  let mul_1 = (cast_0 * (-0.10536051565782628f));
  let expm1_0 = wg_expm1(mul_1);
  let neg_0 = (-expm1_0);
  let div_0 = (0.01f / neg_0);
  let mul_2 = (cast_0 * (-0.0010005003335835344f));
  let expm1_1 = wg_expm1(mul_2);
  let neg_1 = (-expm1_1);
  let rsqrt_0 = inverseSqrt(neg_1);
  scalars[1u] = bitcast<u32>(mul_0);
  y0[0u] = sum_1;
  scalars[0u] = add_1;
  scalars[2u] = bitcast<u32>(div_0);
  scalars[3u] = bitcast<u32>(rsqrt_0);
}
