// cell.wh.matmul
// from loops.wg:10
// 2 x 1 x 1 workgroups of 8 x 8 threads (gpu)
//   x0: state0 f32[2, 5]
//   x1: cell.wh.w f32[5, 20]
//   y0: cell.wh.matmul f32[2, 20]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 100>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 40>;

const ROWS = 2u;
const COLS = 20u;
const DEPTH = 5u;
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;
const WIDTH = 2u;
const VECTORS = 8u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 5u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 20u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 20u + n] = product;
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
  var c0_0 = vec2f();
  var c1_0 = vec2f();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i % TK;
      let m = m_tile + i / TK * WIDTH;
      var x = vec2f();
      if (m + 0u < ROWS && k < DEPTH) { x[0] = left(z, m + 0u, k); }
      if (m + 1u < ROWS && k < DEPTH) { x[1] = left(z, m + 1u, k); }
      left_tile[i % TK * VECTORS + i / TK] = x;
    }
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
