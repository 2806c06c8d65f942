// gelu
// from tokens.wg:13
// 2 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: norm.layer_norm.mul_8 f32[2, 5, 4]
//   x1: norm.g f32[4]
//   x2: norm.b f32[4]
//   x3: mix.w f32[4, 8]
//   y0: mix.matmul f32[10, 8]
//   x4: mix.b f32[8]
//   y1: gelu f32[2, 5, 8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 4>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 32>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 80>;
@group(0) @binding(5) var<storage, read> x4: array<f32, 8>;
@group(0) @binding(6) var<storage, read_write> y1: array<f32, 80>;

const ROWS = 10u;
const COLS = 8u;
const DEPTH = 4u;
const LANES_M = 8u;
const LANES_N = 1u;
const TM = 2u;
const TN = 4u;
const STEP = 1u;

// erf x: below 1 an odd polynomial, above it 1 - exp(-q(|x|)), q fitted to -log(1 - erf).
// From 4 on it is 1 in f32. The comparisons are such that NaN stays NaN.
fn wg_erf(x: f32) -> f32 {
  let a = select(abs(x), 4.0f, abs(x) > 4.0f);
  let z = a * a;
  var near = 0.00007889123f * z - 0.00080208422f;
  near = near * z + 0.0051895357f;
  near = near * z - 0.026854444f;
  near = near * z + 0.112836f;
  near = near * z - 0.37612626f;
  near = near * z + 1.1283791f;
  var q = -0.00019150414f * a + 0.0029995407f;
  q = q * a - 0.022051997f;
  q = q * a + 0.10356689f;
  q = q * a + 0.63760006f;
  q = q * a + 1.127426f;
  q = q * a + 0.00025644567f;
  let y = select(a * near, 1.0f - exp(-q), a >= 1.0f);
  return select(y, -y, x < 0.0f);
}

// x Φ(x), Φ the normal distribution function.
fn wg_gelu(x: f32) -> f32 {
  return 0.5f * x * (1.0f + wg_erf(x * 0.70710678f));
}

struct LeftRow { p0: u32 }

fn left_row(z: u32, m: u32) -> LeftRow {
  return LeftRow(
    m * 4u,
  );
}

struct LeftStep { p0: u32, v0: f32, v1: f32 }

fn left_step(k: u32) -> LeftStep {
  return LeftStep(
    k,
    x1[k],
    x2[k],
  );
}

fn left(row: LeftRow, step: LeftStep) -> f32 {
  let x_0 = x0[row.p0 + step.p0];
  let mul_0 = (x_0 * step.v0);
  let add_0 = (mul_0 + step.v1);
  return add_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x3[k * 8u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x4[n];
  let add_0 = (product + x_0);
  let gelu_0 = wg_gelu(add_0);
  y0[m * 8u + n] = product;
  y1[m * 8u + n] = gelu_0;
}

// Each thread makes a block of TM x TN results in registers; neighbours in a workgroup are
// interleaved along the longer side. Loads past an edge repeat the last row or column.
@compute @workgroup_size(LANES_M * LANES_N)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) lane: vec3u) {
  let z = group.z;
  let m0 = group.y * (TM * LANES_M) + lane.x;
  let n0 = group.x * (TN * LANES_N);
  let m0_in = min(m0 + 0u * LANES_M, ROWS - 1u);
  let row0 = left_row(z, m0_in);
  let m1_in = min(m0 + 1u * LANES_M, ROWS - 1u);
  let row1 = left_row(z, m1_in);
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
  for (var k = 0u; k < DEPTH; k += STEP) {
    let down0 = left_step(k);
    let a0 = left(row0, down0);
    let a1 = left(row1, down0);
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
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0, c0_1, c0_2, c0_3,
    c1_0, c1_1, c1_2, c1_3,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
