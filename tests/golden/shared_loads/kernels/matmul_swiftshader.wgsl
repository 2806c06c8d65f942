// matmul
// from shared_loads.wg:6
// 3 x 2 x 1 workgroups of 8 threads (swiftshader)
//   x0: x f32[40, 24]
//   x1: w f32[24, 20]
//   y0: matmul f32[40, 20]
enable subgroups;

@group(0) @binding(0) var<storage, read> x0: array<f32, 960>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 480>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 800>;

const ROWS = 40u;
const COLS = 20u;
const DEPTH = 24u;
const LANES_M = 8u;
const LANES_N = 1u;
const TM = 4u;
const TN = 8u;
const STEP = 1u;
const SUBGROUP = 4u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 24u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 20u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 20u + n] = product;
}

// Each thread makes a block of TM x TN results in registers; neighbours in a workgroup are
// interleaved along the longer side. Loads past an edge repeat the last row or column.
// Along the shorter side all threads need the same elements: SUBGROUP threads, which run in step,
// load one each and share it by subgroup broadcast.
@compute @workgroup_size(LANES_M * LANES_N)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) lane: vec3u, @builtin(subgroup_invocation_id) thread: u32) {
  let z = group.z;
  let m0 = group.y * (TM * LANES_M) + lane.x;
  let n0 = group.x * (TN * LANES_N);
  let m0_in = min(m0 + 0u * LANES_M, ROWS - 1u);
  let m1_in = min(m0 + 1u * LANES_M, ROWS - 1u);
  let m2_in = min(m0 + 2u * LANES_M, ROWS - 1u);
  let m3_in = min(m0 + 3u * LANES_M, ROWS - 1u);
  let n0_in = min(n0 + 0u * SUBGROUP + thread % SUBGROUP, COLS - 1u);
  let n1_in = min(n0 + 1u * SUBGROUP + thread % SUBGROUP, COLS - 1u);
  var c0_0 = 0.0;
  var c0_1 = 0.0;
  var c0_2 = 0.0;
  var c0_3 = 0.0;
  var c0_4 = 0.0;
  var c0_5 = 0.0;
  var c0_6 = 0.0;
  var c0_7 = 0.0;
  var c1_0 = 0.0;
  var c1_1 = 0.0;
  var c1_2 = 0.0;
  var c1_3 = 0.0;
  var c1_4 = 0.0;
  var c1_5 = 0.0;
  var c1_6 = 0.0;
  var c1_7 = 0.0;
  var c2_0 = 0.0;
  var c2_1 = 0.0;
  var c2_2 = 0.0;
  var c2_3 = 0.0;
  var c2_4 = 0.0;
  var c2_5 = 0.0;
  var c2_6 = 0.0;
  var c2_7 = 0.0;
  var c3_0 = 0.0;
  var c3_1 = 0.0;
  var c3_2 = 0.0;
  var c3_3 = 0.0;
  var c3_4 = 0.0;
  var c3_5 = 0.0;
  var c3_6 = 0.0;
  var c3_7 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let a0 = left(z, m0_in, k);
    let a1 = left(z, m1_in, k);
    let a2 = left(z, m2_in, k);
    let a3 = left(z, m3_in, k);
    let part0 = right(z, k, n0_in);
    let part1 = right(z, k, n1_in);
    let b0 = quadBroadcast(part0, 0u);
    c0_0 = fma(a0, b0, c0_0);
    let b1 = quadBroadcast(part0, 1u);
    c0_1 = fma(a0, b1, c0_1);
    let b2 = quadBroadcast(part0, 2u);
    c0_2 = fma(a0, b2, c0_2);
    let b3 = quadBroadcast(part0, 3u);
    c0_3 = fma(a0, b3, c0_3);
    let b4 = quadBroadcast(part1, 0u);
    c0_4 = fma(a0, b4, c0_4);
    let b5 = quadBroadcast(part1, 1u);
    c0_5 = fma(a0, b5, c0_5);
    let b6 = quadBroadcast(part1, 2u);
    c0_6 = fma(a0, b6, c0_6);
    let b7 = quadBroadcast(part1, 3u);
    c0_7 = fma(a0, b7, c0_7);
    c1_0 = fma(a1, b0, c1_0);
    c1_1 = fma(a1, b1, c1_1);
    c1_2 = fma(a1, b2, c1_2);
    c1_3 = fma(a1, b3, c1_3);
    c1_4 = fma(a1, b4, c1_4);
    c1_5 = fma(a1, b5, c1_5);
    c1_6 = fma(a1, b6, c1_6);
    c1_7 = fma(a1, b7, c1_7);
    c2_0 = fma(a2, b0, c2_0);
    c2_1 = fma(a2, b1, c2_1);
    c2_2 = fma(a2, b2, c2_2);
    c2_3 = fma(a2, b3, c2_3);
    c2_4 = fma(a2, b4, c2_4);
    c2_5 = fma(a2, b5, c2_5);
    c2_6 = fma(a2, b6, c2_6);
    c2_7 = fma(a2, b7, c2_7);
    c3_0 = fma(a3, b0, c3_0);
    c3_1 = fma(a3, b1, c3_1);
    c3_2 = fma(a3, b2, c3_2);
    c3_3 = fma(a3, b3, c3_3);
    c3_4 = fma(a3, b4, c3_4);
    c3_5 = fma(a3, b5, c3_5);
    c3_6 = fma(a3, b6, c3_6);
    c3_7 = fma(a3, b7, c3_7);
  }
  // A loop here, not one copy of `finish` for each result: shader compilers are ten times quicker.
  var results = array<f32, TM * TN>(
    c0_0, c0_1, c0_2, c0_3, c0_4, c0_5, c0_6, c0_7,
    c1_0, c1_1, c1_2, c1_3, c1_4, c1_5, c1_6, c1_7,
    c2_0, c2_1, c2_2, c2_3, c2_4, c2_5, c2_6, c2_7,
    c3_0, c3_1, c3_2, c3_3, c3_4, c3_5, c3_6, c3_7,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
