// d.mix.b
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: norm.layer_norm.mul_8 f32[2, 5, 4]
//   x1: norm.g f32[4]
//   x2: norm.b f32[4]
//   x3: d.mix.add f32[2, 5, 8]
//   y0: d.mix.w f32[4, 8]
//   y1: d.mix.b f32[8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 4>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 80>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 32>;
@group(0) @binding(5) var<storage, read_write> y1: array<f32, 8>;

const ROWS = 4u;
const COLS = 8u;
const DEPTH = 10u;
const LANES_M = 1u;
const LANES_N = 8u;
const TM = 4u;
const TN = 1u;
const STEP = 1u;

struct LeftRow { p0: u32, v0: f32, v1: f32 }

fn left_row(z: u32, m: u32) -> LeftRow {
  return LeftRow(
    m,
    x1[m],
    x2[m],
  );
}

struct LeftStep { p0: u32 }

fn left_step(k: u32) -> LeftStep {
  return LeftStep(
    k * 4u,
  );
}

fn left(row: LeftRow, step: LeftStep) -> f32 {
  let x_0 = x0[step.p0 + row.p0];
  let mul_0 = (x_0 * row.v0);
  let add_0 = (mul_0 + row.v1);
  return add_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x3[k * 8u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 8u + n] = product;
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
  let row0 = left_row(z, m0_in);
  let m1_in = min(m0 + 1u * LANES_M, ROWS - 1u);
  let row1 = left_row(z, m1_in);
  let m2_in = min(m0 + 2u * LANES_M, ROWS - 1u);
  let row2 = left_row(z, m2_in);
  let m3_in = min(m0 + 3u * LANES_M, ROWS - 1u);
  let row3 = left_row(z, m3_in);
  let n0_in = min(n0 + 0u * LANES_N, COLS - 1u);
  var c0_0 = 0.0;
  var c1_0 = 0.0;
  var c2_0 = 0.0;
  var c3_0 = 0.0;
  var sum0 = 0.0;
  for (var k = 0u; k < DEPTH; k += STEP) {
    let down0 = left_step(k);
    let a0 = left(row0, down0);
    let a1 = left(row1, down0);
    let a2 = left(row2, down0);
    let a3 = left(row3, down0);
    let b0 = right(z, k, n0_in);
    c0_0 = fma(a0, b0, c0_0);
    c1_0 = fma(a1, b0, c1_0);
    c2_0 = fma(a2, b0, c2_0);
    c3_0 = fma(a3, b0, c3_0);
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
    c3_0,
  );
  for (var i = 0u; i < TM * TN; i++) {
    let m = m0 + i / TN * LANES_M;
    let n = n0 + i % TN * LANES_N;
    if (m < ROWS && n < COLS) { finish(z, m, n, results[i]); }
  }
}
