// d.reshape
// from tokens.wg:14
// 1 x 1 x 1 workgroups of 4 x 16 threads (gpu)
//   x0: d.z f32[2, 5, 7]
//   x1: tok.w f32[7, 4]
//   y0: d.reshape f32[10, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 28>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 40>;

const ROWS = 10u;
const DEPTH = 7u;
const ACROSS = 4u;
const DOWN = 16u;
const THREADS = 64u;
const TM = 1u;
const TN = 1u;
const TK = 7u;
const ROWS_TILE = 16u;
const COLS_TILE = 4u;
const LEFT_STRIDE = 24u;
const RIGHT_STRIDE = 4u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 7u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 4u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 4u + n] = product;
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks; zeros pad the edges.
var<workgroup> left_tile: array<f32, TK * LEFT_STRIDE>;
var<workgroup> right_tile: array<f32, TK * RIGHT_STRIDE>;

@compute @workgroup_size(ACROSS, DOWN)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * ROWS_TILE;
  let n_tile = group.x * COLS_TILE;
  var c0_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot % TK;
    let m0_0 = m_tile + slot / TK;
    var left0_0 = 0.0;
    if (m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
    let left_k1 = k_tile + (slot + THREADS) % TK;
    let m1_0 = m_tile + (slot + THREADS) / TK;
    var left1_0 = 0.0;
    if ((slot + THREADS) < 112u && m1_0 < ROWS) { left1_0 = left(z, m1_0, left_k1); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (slot < 28u) { right0_0 = right(z, right_k0, n0_0); }
    left_tile[(slot % TK) * LEFT_STRIDE + slot / TK] = left0_0;
    if ((slot + THREADS) < 112u) { left_tile[((slot + THREADS) % TK) * LEFT_STRIDE + (slot + THREADS) / TK] = left1_0; }
    if (slot < 28u) { right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0; }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * LEFT_STRIDE + lane.y];
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0, b0, c0_0);
    }
    workgroupBarrier();
  }
  let row0 = m_tile + lane.y;
  if (row0 < ROWS) {
    finish(z, row0, n_tile + lane.x, c0_0);
  }
}
