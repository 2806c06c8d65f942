// l2.matmul.mul
// from regression.wg:9
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: x f32[2, 3]
//   x1: l1.w f32[3, 5]
//   x2: l1.b f32[5]
//   x3: l2.w f32[5, 1]
//   y0: l2.matmul.mul f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 15>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 5>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 5>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 10>;

const ROWS = 2u;
const COLS = 5u;
const DEPTH = 3u;
const LANES_M = 1u;
const LANES_N = 8u;
const TM = 2u;
const TN = 1u;
const STEP = 1u;

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

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 3u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 5u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  let tanh_0 = wg_tanh(add_0);
  let x_1 = x3[n];
  let mul_0 = (tanh_0 * x_1);
  y0[m * 5u + n] = mul_0;
}

// Each thread makes a block of TM x TN results in registers; neighbours in a workgroup are
// interleaved along the longer side. Loads past an edge repeat the last row or column.
@compute @workgroup_size(LANES_M * LANES_N)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) lane: vec3u) {
  let z = group.z;
  let m0 = group.y * (TM * LANES_M);
  let n0 = group.x * (TN * LANES_N) + lane.x;
  let m0_in = min(m0 + 0u * LANES_M, ROWS - 1u);
  let m1_in = min(m0 + 1u * LANES_M, ROWS - 1u);
  let n0_in = min(n0 + 0u * LANES_N, COLS - 1u);
  var c0_0 = 0.0;
  var c1_0 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let a0 = left(z, m0_in, k);
    let a1 = left(z, m1_in, k);
    let b0 = right(z, k, n0_in);
    c0_0 = fma(a0, b0, c0_0);
    c1_0 = fma(a1, b0, c1_0);
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0,
    c1_0,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
