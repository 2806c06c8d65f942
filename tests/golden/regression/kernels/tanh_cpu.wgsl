// tanh
// from regression.wg:9
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: x f32[6, 3]
//   x1: l1.w f32[3, 5]
//   x2: l1.b f32[5]
//   y0: tanh f32[6, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 15>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 5>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 30>;

const ROWS = 6u;
const COLS = 5u;
const DEPTH = 3u;
const LANES_M = 8u;
const LANES_N = 1u;
const TM = 1u;
const TN = 4u;
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
  y0[m * 5u + n] = tanh_0;
}

// Each thread makes a block of TM x TN results in registers; neighbours in a workgroup are
// interleaved along the longer side. Loads past an edge repeat the last row or column.
@compute @workgroup_size(LANES_M * LANES_N)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) lane: vec3u) {
  let z = group.z;
  let m0 = group.y * (TM * LANES_M) + lane.x;
  let n0 = group.x * (TN * LANES_N);
  let m0_in = min(m0 + 0u * LANES_M, ROWS - 1u);
  let n0_in = min(n0 + 0u * LANES_N, COLS - 1u);
  let n1_in = min(n0 + 1u * LANES_N, COLS - 1u);
  let n2_in = min(n0 + 2u * LANES_N, COLS - 1u);
  let n3_in = min(n0 + 3u * LANES_N, COLS - 1u);
  var c0_0 = 0.0;
  var c0_1 = 0.0;
  var c0_2 = 0.0;
  var c0_3 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let a0 = left(z, m0_in, k);
    let b0 = right(z, k, n0_in);
    let b1 = right(z, k, n1_in);
    let b2 = right(z, k, n2_in);
    let b3 = right(z, k, n3_in);
    c0_0 = fma(a0, b0, c0_0);
    c0_1 = fma(a0, b1, c0_1);
    c0_2 = fma(a0, b2, c0_2);
    c0_3 = fma(a0, b3, c0_3);
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0, c0_1, c0_2, c0_3,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
