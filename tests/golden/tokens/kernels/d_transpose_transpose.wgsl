// d.transpose.transpose
// from tokens.wg:14
// 1 x 1 x 1 workgroups of 4 x 8 threads (gpu)
//   x0: d.z f32[2, 5, 7]
//   x1: x_2 f32[2, 5, 4]
//   y0: d.transpose.transpose f32[7, 4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 28>;

const ROWS = 7u;
const DEPTH = 10u;
const ACROSS = 4u;
const DOWN = 8u;
const THREADS = 32u;
const TM = 1u;
const TN = 1u;
const TK = 10u;
const ROWS_TILE = 8u;
const COLS_TILE = 4u;
const LEFT_STRIDE = 8u;
const RIGHT_STRIDE = 4u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[k * 7u + m];
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
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let left_k0 = k_tile + u / ROWS_TILE;
      let m0_0 = m_tile + u % ROWS_TILE;
      var left0_0 = 0.0;
      if (u < 80u && m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
      if (u < 80u) { left_tile[(u / ROWS_TILE) * LEFT_STRIDE + u % ROWS_TILE] = left0_0; }
    }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    let right0_0 = right(z, right_k0, n0_0);
    let right_k1 = k_tile + (slot + THREADS) / COLS_TILE;
    let n1_0 = n_tile + (slot + THREADS) % COLS_TILE;
    var right1_0 = 0.0;
    if ((slot + THREADS) < 40u) { right1_0 = right(z, right_k1, n1_0); }
    right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0;
    if ((slot + THREADS) < 40u) { right_tile[((slot + THREADS) / COLS_TILE) * RIGHT_STRIDE + (slot + THREADS) % COLS_TILE] = right1_0; }
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
