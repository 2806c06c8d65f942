// y
// from regression.wg:9
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l1.matmul f32[2, 5]
//   x1: l1.b f32[5]
//   x2: l2.w f32[5, 1]
//   x3: l2.b f32[1]
//   y0: y f32[2, 1]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 5>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 5>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 1>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 2>;

const OUTER = 2u;
const INNER = 5u;
const WORKGROUP = 64u;

// tanh x. Near 0 a polynomial, which keeps the relative error small; from 9.1 on it is 1 in f32,
// and exp must not overflow. The comparisons are such that NaN stays NaN.
fn wg_tanh(x: f32) -> f32 {
  let a = abs(x);
  let z = x * x;
  var p = -0.005905868f * z + 0.020805385f;
  p = p * z - 0.053786684f;
  p = p * z + 0.13331959f;
  p = p * z - 0.33333299f;
  let e = exp(2.0f * select(a, 15.0f, a > 15.0f));
  let far = 1.0f - 2.0f / (e + 1.0f);
  return select(x + x * z * p, select(far, -far, x < 0.0f), a >= 0.6f);
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 5u + r];
    let x_1 = x1[r];
    let add_0 = (x_0 + x_1);
    let tanh_0 = wg_tanh(add_0);
    let x_2 = x2[r];
    let mul_0 = (tanh_0 * x_2);
    sum_0 = (sum_0 + mul_0);
  }
  let x_3 = x3[0u];
  let add_1 = (sum_0 + x_3);
  y0[o] = add_1;
}
