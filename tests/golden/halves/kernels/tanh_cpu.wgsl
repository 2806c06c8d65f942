// tanh
// from halves.wg:13
// 1 x 8 x 1 workgroups of 8 threads (cpu)
//   x0: x f32[32, 4]
//   x1: l1.w f32[4, 32]
//   x2: l1.b f32[32]
//   y0: tanh f32[32, 32]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<f32, 128>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 128>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 32>;
@group(0) @binding(3) var<storage, read_write> y0: array<f16, 1024>;

const ROWS = 32u;
const COLS = 32u;
const DEPTH = 4u;
const LANES_M = 1u;
const LANES_N = 8u;
const TM = 4u;
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
  let x_0 = x0[m * 4u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 32u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  let tanh_0 = wg_tanh(add_0);
  y0[m * 32u + n] = f16(tanh_0);
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
  let m2_in = min(m0 + 2u * LANES_M, ROWS - 1u);
  let m3_in = min(m0 + 3u * LANES_M, ROWS - 1u);
  let n0_in = min(n0 + 0u * LANES_N, COLS - 1u);
  let n1_in = min(n0 + 1u * LANES_N, COLS - 1u);
  let n2_in = min(n0 + 2u * LANES_N, COLS - 1u);
  let n3_in = min(n0 + 3u * LANES_N, COLS - 1u);
  var c0_0 = 0.0;
  var c0_1 = 0.0;
  var c0_2 = 0.0;
  var c0_3 = 0.0;
  var c1_0 = 0.0;
  var c1_1 = 0.0;
  var c1_2 = 0.0;
  var c1_3 = 0.0;
  var c2_0 = 0.0;
  var c2_1 = 0.0;
  var c2_2 = 0.0;
  var c2_3 = 0.0;
  var c3_0 = 0.0;
  var c3_1 = 0.0;
  var c3_2 = 0.0;
  var c3_3 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let a0 = left(z, m0_in, k);
    let a1 = left(z, m1_in, k);
    let a2 = left(z, m2_in, k);
    let a3 = left(z, m3_in, k);
    let b0 = right(z, k, n0_in);
    let b1 = right(z, k, n1_in);
    let b2 = right(z, k, n2_in);
    let b3 = right(z, k, n3_in);
    c0_0 = fma(a0, b0, c0_0);
    c0_1 = fma(a0, b1, c0_1);
    c0_2 = fma(a0, b2, c0_2);
    c0_3 = fma(a0, b3, c0_3);
    c1_0 = fma(a1, b0, c1_0);
    c1_1 = fma(a1, b1, c1_1);
    c1_2 = fma(a1, b2, c1_2);
    c1_3 = fma(a1, b3, c1_3);
    c2_0 = fma(a2, b0, c2_0);
    c2_1 = fma(a2, b1, c2_1);
    c2_2 = fma(a2, b2, c2_2);
    c2_3 = fma(a2, b3, c2_3);
    c3_0 = fma(a3, b0, c3_0);
    c3_1 = fma(a3, b1, c3_1);
    c3_2 = fma(a3, b2, c3_2);
    c3_3 = fma(a3, b3, c3_3);
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0, c0_1, c0_2, c0_3,
    c1_0, c1_1, c1_2, c1_3,
    c2_0, c2_1, c2_2, c2_3,
    c3_0, c3_1, c3_2, c3_3,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
