// d.transpose
// from tokens.wg:14
// 1 x 1 x 1 workgroups of 8 x 4 threads (gpu)
//   x0: x_2 f32[2, 5, 4]
//   x1: d.z f32[2, 5, 7]
//   y0: d.transpose f32[4, 7]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 70>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 28>;

const COLS = 7u;
const DEPTH = 10u;
const ACROSS = 8u;
const DOWN = 4u;
const THREADS = 32u;
const TM = 1u;
const TN = 1u;
const TK = 10u;
const ROWS_TILE = 4u;
const COLS_TILE = 8u;
const LEFT_STRIDE = 4u;
const RIGHT_STRIDE = 8u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[k * 4u + m];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 7u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 7u + n] = product;
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
    let left_k0 = k_tile + slot / ROWS_TILE;
    let m0_0 = m_tile + slot % ROWS_TILE;
    let left0_0 = left(z, m0_0, left_k0);
    let left_k1 = k_tile + (slot + THREADS) / ROWS_TILE;
    let m1_0 = m_tile + (slot + THREADS) % ROWS_TILE;
    var left1_0 = 0.0;
    if ((slot + THREADS) < 40u) { left1_0 = left(z, m1_0, left_k1); }
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile + u / COLS_TILE;
      let n0_0 = n_tile + u % COLS_TILE;
      var right0_0 = 0.0;
      if (u < 80u && n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
      if (u < 80u) { right_tile[(u / COLS_TILE) * RIGHT_STRIDE + u % COLS_TILE] = right0_0; }
    }
    left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0;
    if ((slot + THREADS) < 40u) { left_tile[((slot + THREADS) / ROWS_TILE) * LEFT_STRIDE + (slot + THREADS) % ROWS_TILE] = left1_0; }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * LEFT_STRIDE + lane.y];
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0, b0, c0_0);
    }
    workgroupBarrier();
  }
  let row0 = m_tile + lane.y;
  if (n_tile + lane.x < COLS) { finish(z, row0, n_tile + lane.x, c0_0); }
}
