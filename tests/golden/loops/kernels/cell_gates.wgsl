// cell.gates
// from loops.wg:10
// 1 x 1 x 1 workgroups of 32 x 2 threads (gpu)
//   x0: state0 f32[2, 5]
//   x1: cell.wh.w f32[5, 20]
//   x2: cell.wx.matmul f32[2, 20], then cell.gates f32[2, 20]
//   x3: cell.wx.b f32[20]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 100>;
@group(0) @binding(2) var<storage, read_write> x2: array<f32, 40>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 20>;

const COLS = 20u;
const DEPTH = 5u;
const ACROSS = 32u;
const DOWN = 2u;
const THREADS = 64u;
const TM = 1u;
const TN = 1u;
const TK = 5u;
const ROWS_TILE = 2u;
const COLS_TILE = 32u;
const LEFT_STRIDE = 2u;
const RIGHT_STRIDE = 32u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 5u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 20u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[m * 20u + n];
  let x_1 = x3[n];
  let add_0 = (x_0 + x_1);
  let add_1 = (add_0 + product);
  x2[m * 20u + n] = add_1;
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
    var left0_0 = 0.0;
    if (slot < 10u) { left0_0 = left(z, m0_0, left_k0); }
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile + u / COLS_TILE;
      let n0_0 = n_tile + u % COLS_TILE;
      var right0_0 = 0.0;
      if (u < 160u && n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
      if (u < 160u) { right_tile[(u / COLS_TILE) * RIGHT_STRIDE + u % COLS_TILE] = right0_0; }
    }
    if (slot < 10u) { left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0; }
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
