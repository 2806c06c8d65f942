// d.l1.b
// from regression.wg:9
// 3 x 1 x 1 workgroups of 2 x 4 threads (gpu)
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
const ACROSS = 2u;
const DOWN = 4u;
const THREADS = 8u;
const TM = 1u;
const TN = 1u;
const TK = 6u;
const ROWS_TILE = 4u;
const COLS_TILE = 2u;
const LEFT_STRIDE = 4u;
const RIGHT_STRIDE = 2u;

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
  var sum0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let left_k0 = k_tile + u / ROWS_TILE;
      let m0_0 = m_tile + u % ROWS_TILE;
      var left0_0 = 0.0;
      if (m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
      left_tile[(u / ROWS_TILE) * LEFT_STRIDE + u % ROWS_TILE] = left0_0;
    }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
    let right_k1 = k_tile + (slot + THREADS) / COLS_TILE;
    let n1_0 = n_tile + (slot + THREADS) % COLS_TILE;
    var right1_0 = 0.0;
    if ((slot + THREADS) < 12u && n1_0 < COLS) { right1_0 = right(z, right_k1, n1_0); }
    right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0;
    if ((slot + THREADS) < 12u) { right_tile[((slot + THREADS) / COLS_TILE) * RIGHT_STRIDE + (slot + THREADS) % COLS_TILE] = right1_0; }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * LEFT_STRIDE + lane.y];
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0, b0, c0_0);
      if (group.y == 0u) {
        sum0 += b0;
      }
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y == 0u) {
    if (n_tile + lane.x < COLS) { finish_sum(n_tile + lane.x, sum0); }
  }
  let row0 = m_tile + lane.y;
  if (row0 < ROWS) {
    if (n_tile + lane.x < COLS) { finish(z, row0, n_tile + lane.x, c0_0); }
  }
}
