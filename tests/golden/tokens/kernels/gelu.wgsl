// gelu
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 x 8 threads (gpu)
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
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;
const WIDTH = 2u;
const VECTORS = 8u;

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

// A workgroup of SIDE x SIDE threads makes a TILE x TILE block of the result, TM x TN per thread.
// It walks along the inner axis TK at a time, sharing both operands' blocks as vectors of WIDTH
// rows or columns; zeros pad the edges.
var<workgroup> left_tile: array<vec2f, VECTORS * TK>;
var<workgroup> right_tile: array<vec2f, VECTORS * TK>;

@compute @workgroup_size(SIDE, SIDE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * TILE;
  let n_tile = group.x * TILE;
  // Where a thread's part of each block is: its rows and its place along the inner axis are the
  // same in every block.
  let m0 = m_tile + (slot + 0u * SIDE * SIDE) / TK * WIDTH + 0u;
  let row0 = left_row(z, min(m0, ROWS - 1u));
  let m1 = m_tile + (slot + 0u * SIDE * SIDE) / TK * WIDTH + 1u;
  let row1 = left_row(z, min(m1, ROWS - 1u));
  let m2 = m_tile + (slot + 1u * SIDE * SIDE) / TK * WIDTH + 0u;
  let row2 = left_row(z, min(m2, ROWS - 1u));
  let m3 = m_tile + (slot + 1u * SIDE * SIDE) / TK * WIDTH + 1u;
  let row3 = left_row(z, min(m3, ROWS - 1u));
  var c0_0 = vec2f();
  var c1_0 = vec2f();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let k_own = k_tile + slot % TK;
    let down = left_step(min(k_own, DEPTH - 1u));
    let left_at = slot % TK * VECTORS + slot / TK;
    var x0 = 0.0;
    if (m0 < ROWS && k_own < DEPTH) { x0 = left(row0, down); }
    var x1 = 0.0;
    if (m1 < ROWS && k_own < DEPTH) { x1 = left(row1, down); }
    var x2 = 0.0;
    if (m2 < ROWS && k_own < DEPTH) { x2 = left(row2, down); }
    var x3 = 0.0;
    if (m3 < ROWS && k_own < DEPTH) { x3 = left(row3, down); }
    left_tile[left_at + 0u * (SIDE * SIDE / TK)] = vec2f(x0, x1);
    left_tile[left_at + 1u * (SIDE * SIDE / TK)] = vec2f(x2, x3);
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i / VECTORS;
      var x = vec2f();
      let n = n_tile + i % VECTORS * WIDTH;
      if (n + 0u < COLS && k < DEPTH) { x[0] = right(z, k, n + 0u); }
      if (n + 1u < COLS && k < DEPTH) { x[1] = right(z, k, n + 1u); }
      right_tile[i] = x;
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * VECTORS + lane.y * (TM / WIDTH) + 0u];
      let b0 = right_tile[k * VECTORS + lane.x * (TN / WIDTH) + 0u];
      c0_0 = fma(vec2f(a0[0]), b0, c0_0);
      c1_0 = fma(vec2f(a0[1]), b0, c1_0);
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 0u < COLS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 0u, c0_0[0]); }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 1u < COLS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 1u, c0_0[1]); }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 0u < COLS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 0u, c1_0[0]); }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 1u < COLS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 1u, c1_0[1]); }
}
