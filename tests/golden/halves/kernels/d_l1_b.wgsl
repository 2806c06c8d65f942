// d.l1.b
// from halves.wg:13
// 1 x 1 x 1 workgroups of 32 x 4 threads (gpu)
//   x0: x f32[32, 4]
//   x1: d.l1.add f32[32, 32]
//   y0: d.l1.w f32[4, 32]
//   y1: d.l1.b f32[32]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<f32, 128>;
@group(0) @binding(1) var<storage, read> x1: array<f16, 1024>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 128>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 32>;

const DEPTH = 32u;
const ACROSS = 32u;
const DOWN = 4u;
const THREADS = 128u;
const TM = 1u;
const TN = 1u;
const TK = 32u;
const ROWS_TILE = 4u;
const COLS_TILE = 32u;
const LEFT_STRIDE = 4u;
const RIGHT_STRIDE = 32u;

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[k * 4u + m];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = f32(x1[k * 32u + n]);
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 32u + n] = product;
}

fn finish_sum(n: u32, total: f32) {
  y1[n] = total;
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks.
var<workgroup> left_tile: array<f32, TK * LEFT_STRIDE>;
var<workgroup> right_tile: array<f16, TK * RIGHT_STRIDE>;

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
    let left_k0 = k_tile + slot / ROWS_TILE;
    let m0_0 = m_tile + slot % ROWS_TILE;
    let left0_0 = left(z, m0_0, left_k0);
    for (var i = 0u; i < 8u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile + u / COLS_TILE;
      let n0_0 = n_tile + u % COLS_TILE;
      let right0_0 = right(z, right_k0, n0_0);
      right_tile[(u / COLS_TILE) * RIGHT_STRIDE + u % COLS_TILE] = f16(right0_0);
    }
    left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0;
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * LEFT_STRIDE + lane.y];
      let b0 = f32(right_tile[k * RIGHT_STRIDE + lane.x]);
      c0_0 = fma(a0, b0, c0_0);
      if (group.y == 0u) {
        sum0 += b0;
      }
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y == 0u) {
    finish_sum(n_tile + lane.x, sum0);
  }
  let row0 = m_tile + lane.y;
  finish(z, row0, n_tile + lane.x, c0_0);
}
