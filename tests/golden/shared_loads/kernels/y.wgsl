// y
// from shared_loads.wg:6
// 3 x 3 x 1 workgroups of 8 x 8 threads (gpu)
//   x0: matmul f32[40, 20]
//   x1: u f32[20, 44]
//   y0: y f32[40, 44]
@group(0) @binding(0) var<storage, read> x0: array<f32, 800>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 880>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 1760>;

const ROWS = 40u;
const COLS = 44u;
const DEPTH = 20u;
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 20u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 44u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 44u + n] = product;
}

// A workgroup of SIDE x SIDE threads makes a TILE x TILE block of the result, TM x TN per thread.
// It walks along the inner axis TK at a time, sharing both operands' blocks; zeros pad the edges.
var<workgroup> left_tile: array<f32, TILE * TK>;
var<workgroup> right_tile: array<f32, TK * TILE>;

@compute @workgroup_size(SIDE, SIDE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * TILE;
  let n_tile = group.x * TILE;
  var c00 = 0.0;
  var c01 = 0.0;
  var c10 = 0.0;
  var c11 = 0.0;
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = slot; i < TILE * TK; i += SIDE * SIDE) {
      let m = m_tile + i / TK;
      let k = k_tile + i % TK;
      var x = 0.0;
      if (m < ROWS && k < DEPTH) { x = left(z, m, k); }
      left_tile[(i % TK) * TILE + i / TK] = x;
    }
    for (var i = slot; i < TK * TILE; i += SIDE * SIDE) {
      let k = k_tile + i / TILE;
      let n = n_tile + i % TILE;
      var x = 0.0;
      if (k < DEPTH && n < COLS) { x = right(z, k, n); }
      right_tile[i] = x;
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * TILE + lane.y * TM + 0u];
      let a1 = left_tile[k * TILE + lane.y * TM + 1u];
      let b0 = right_tile[k * TILE + lane.x * TN + 0u];
      let b1 = right_tile[k * TILE + lane.x * TN + 1u];
      c00 = fma(a0, b0, c00);
      c01 = fma(a0, b1, c01);
      c10 = fma(a1, b0, c10);
      c11 = fma(a1, b1, c11);
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 0u < COLS) {
    finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 0u, c00);
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 1u < COLS) {
    finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 1u, c01);
  }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 0u < COLS) {
    finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 0u, c10);
  }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 1u < COLS) {
    finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 1u, c11);
  }
}
