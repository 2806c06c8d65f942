// d.back.w
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: gelu f32[2, 5, 8]
//   x1: d.reshape f32[10, 4]
//   y0: d.back.w f32[8, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 80>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 32>;

const ROWS = 8u;
const COLS = 4u;
const DEPTH = 10u;
const LANES_M = 8u;
const LANES_N = 1u;
const TM = 1u;
const TN = 4u;
const STEP = 1u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[k * 8u + m];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 4u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 4u + n] = product;
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
