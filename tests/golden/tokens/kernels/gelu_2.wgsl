// gelu
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 x 4 x 4 threads (gpu)
//   x0: norm.layer_norm f32[2, 5, 4]
//   x1: opt/opt/ema/mix.w f32[4, 8]
//   x2: opt/opt/ema/mix.b f32[8]
//   y0: gelu f32[2, 5, 8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 32>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 8>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 80>;

const ROWS = 10u;
const DEPTH = 4u;
const ACROSS = 8u;
const DOWN = 4u;
const THREADS = 128u;
const TM = 4u;
const TN = 1u;
const TK = 4u;
const SLICES = 4u;
const ROW_STRIDE = 8u;
const SLICE_STRIDE = 128u;
const ROWS_TILE = 16u;
const COLS_TILE = 8u;
const LEFT_STRIDE = 24u;
const RIGHT_STRIDE = 8u;

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

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 4u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 8u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  let gelu_0 = wg_gelu(add_0);
  y0[m * 8u + n] = gelu_0;
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks; zeros pad the edges.
// SLICES such sets of threads take turns along the inner axis; in the end their results are added.
var<workgroup> left_tile: array<f32, TK * LEFT_STRIDE>;
var<workgroup> right_tile: array<f32, TK * RIGHT_STRIDE>;
var<workgroup> added: array<f32, SLICES * SLICE_STRIDE>;

@compute @workgroup_size(ACROSS, DOWN, SLICES)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * ROWS_TILE;
  let n_tile = group.x * COLS_TILE;
  var c0_0 = f32();
  var c1_0 = f32();
  var c2_0 = f32();
  var c3_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot % TK;
    let m0_0 = m_tile + slot / TK;
    var left0_0 = 0.0;
    if (slot < 64u && m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (slot < 32u) { right0_0 = right(z, right_k0, n0_0); }
    if (slot < 64u) { left_tile[(slot % TK) * LEFT_STRIDE + slot / TK] = left0_0; }
    if (slot < 32u) { right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0; }
    workgroupBarrier();
    for (var k = lane.z; k < TK; k += SLICES) {
      let a0 = vec4f(left_tile[k * LEFT_STRIDE + lane.y], left_tile[k * LEFT_STRIDE + lane.y + 1u * DOWN], left_tile[k * LEFT_STRIDE + lane.y + 2u * DOWN], left_tile[k * LEFT_STRIDE + lane.y + 3u * DOWN]);
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0[0], b0, c0_0);
      c1_0 = fma(a0[1], b0, c1_0);
      c2_0 = fma(a0[2], b0, c2_0);
      c3_0 = fma(a0[3], b0, c3_0);
    }
    workgroupBarrier();
  }
  let part = lane.z * SLICE_STRIDE + lane.y * ROW_STRIDE + lane.x;
  added[part] = c0_0;
  added[part + 1u * DOWN * ROW_STRIDE] = c1_0;
  added[part + 2u * DOWN * ROW_STRIDE] = c2_0;
  added[part + 3u * DOWN * ROW_STRIDE] = c3_0;
  workgroupBarrier();
  for (var result = slot; result < ROWS_TILE * COLS_TILE; result += THREADS) {
    let m = result / COLS_TILE;
    let n = result % COLS_TILE;
    var total = 0.0;
    for (var i = 0u; i < SLICES; i++) { total += added[i * SLICE_STRIDE + m * ROW_STRIDE + n]; }
    if (m_tile + m < ROWS) { finish(z, m_tile + m, n_tile + n, total); }
  }
}
