// d.l1.b
// from regression.wg:9
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: x f32[6, 3]
//   x1: d.l1.add f32[6, 5]
//   y0: d.l1.w f32[3, 5]
//   y1: d.l1.b f32[5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 30>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 15>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 5>;

const ROWS = 3u;
const COLS = 5u;
const DEPTH = 6u;
const LANES_M = 1u;
const LANES_N = 8u;
const TM = 3u;
const TN = 1u;
const STEP = 1u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[k * 3u + m];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 5u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 5u + n] = product;
}

fn finish_sum(n: u32, total: f32) {
  y1[n] = total;
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
  let n0_in = min(n0 + 0u * LANES_N, COLS - 1u);
  var c0_0 = 0.0;
  var c1_0 = 0.0;
  var c2_0 = 0.0;
  var sum0 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let a0 = left(z, m0_in, k);
    let a1 = left(z, m1_in, k);
    let a2 = left(z, m2_in, k);
    let b0 = right(z, k, n0_in);
    c0_0 = fma(a0, b0, c0_0);
    c1_0 = fma(a1, b0, c1_0);
    c2_0 = fma(a2, b0, c2_0);
    sum0 += b0;
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  if (m0 == 0u) {
    var sums = array<f32, TN>(sum0);
    for (var j = 0u; j < TN; j++) {
      let n = n0 + j * LANES_N;
      if (n < COLS) { finish_sum(n, sums[j]); }
    }
  }
  var results = array<f32, TM * TN>(
    c0_0,
    c1_0,
    c2_0,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
