// y
// from shared_loads.wg:6
// 2 x 5 x 1 workgroups of 8 threads (swiftshader)
//   x0: matmul f32[40, 20]
//   x1: u f32[20, 44]
//   y0: y f32[40, 44]
enable subgroups;

@group(0) @binding(0) var<storage, read> x0: array<f32, 800>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 880>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 1760>;

const ROWS = 40u;
const COLS = 44u;
const DEPTH = 20u;
const LANES_M = 1u;
const LANES_N = 8u;
const TM = 8u;
const TN = 4u;
const STEP = 1u;
const SUBGROUP = 4u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 20u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 44u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 44u + n] = product;
}

// Each thread makes a block of TM x TN results in registers; neighbours in a workgroup are
// interleaved along the longer side. Loads past an edge repeat the last row or column.
// Along the shorter side all threads need the same elements: SUBGROUP threads, which run in step,
// load one each and share it by subgroup broadcast.
@compute @workgroup_size(LANES_M * LANES_N)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) lane: vec3u, @builtin(subgroup_invocation_id) thread: u32) {
  let z = group.z;
  let m0 = group.y * (TM * LANES_M);
  let n0 = group.x * (TN * LANES_N) + lane.x;
  let m0_in = min(m0 + 0u * SUBGROUP + thread % SUBGROUP, ROWS - 1u);
  let m1_in = min(m0 + 1u * SUBGROUP + thread % SUBGROUP, ROWS - 1u);
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
  var c4_0 = 0.0;
  var c4_1 = 0.0;
  var c4_2 = 0.0;
  var c4_3 = 0.0;
  var c5_0 = 0.0;
  var c5_1 = 0.0;
  var c5_2 = 0.0;
  var c5_3 = 0.0;
  var c6_0 = 0.0;
  var c6_1 = 0.0;
  var c6_2 = 0.0;
  var c6_3 = 0.0;
  var c7_0 = 0.0;
  var c7_1 = 0.0;
  var c7_2 = 0.0;
  var c7_3 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let part0 = left(z, m0_in, k);
    let part1 = left(z, m1_in, k);
    let b0 = right(z, k, n0_in);
    let b1 = right(z, k, n1_in);
    let b2 = right(z, k, n2_in);
    let b3 = right(z, k, n3_in);
    let a0 = quadBroadcast(part0, 0u);
    c0_0 = fma(a0, b0, c0_0);
    c0_1 = fma(a0, b1, c0_1);
    c0_2 = fma(a0, b2, c0_2);
    c0_3 = fma(a0, b3, c0_3);
    let a1 = quadBroadcast(part0, 1u);
    c1_0 = fma(a1, b0, c1_0);
    c1_1 = fma(a1, b1, c1_1);
    c1_2 = fma(a1, b2, c1_2);
    c1_3 = fma(a1, b3, c1_3);
    let a2 = quadBroadcast(part0, 2u);
    c2_0 = fma(a2, b0, c2_0);
    c2_1 = fma(a2, b1, c2_1);
    c2_2 = fma(a2, b2, c2_2);
    c2_3 = fma(a2, b3, c2_3);
    let a3 = quadBroadcast(part0, 3u);
    c3_0 = fma(a3, b0, c3_0);
    c3_1 = fma(a3, b1, c3_1);
    c3_2 = fma(a3, b2, c3_2);
    c3_3 = fma(a3, b3, c3_3);
    let a4 = quadBroadcast(part1, 0u);
    c4_0 = fma(a4, b0, c4_0);
    c4_1 = fma(a4, b1, c4_1);
    c4_2 = fma(a4, b2, c4_2);
    c4_3 = fma(a4, b3, c4_3);
    let a5 = quadBroadcast(part1, 1u);
    c5_0 = fma(a5, b0, c5_0);
    c5_1 = fma(a5, b1, c5_1);
    c5_2 = fma(a5, b2, c5_2);
    c5_3 = fma(a5, b3, c5_3);
    let a6 = quadBroadcast(part1, 2u);
    c6_0 = fma(a6, b0, c6_0);
    c6_1 = fma(a6, b1, c6_1);
    c6_2 = fma(a6, b2, c6_2);
    c6_3 = fma(a6, b3, c6_3);
    let a7 = quadBroadcast(part1, 3u);
    c7_0 = fma(a7, b0, c7_0);
    c7_1 = fma(a7, b1, c7_1);
    c7_2 = fma(a7, b2, c7_2);
    c7_3 = fma(a7, b3, c7_3);
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0, c0_1, c0_2, c0_3,
    c1_0, c1_1, c1_2, c1_3,
    c2_0, c2_1, c2_2, c2_3,
    c3_0, c3_1, c3_2, c3_3,
    c4_0, c4_1, c4_2, c4_3,
    c5_0, c5_1, c5_2, c5_3,
    c6_0, c6_1, c6_2, c6_3,
    c7_0, c7_1, c7_2, c7_3,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
