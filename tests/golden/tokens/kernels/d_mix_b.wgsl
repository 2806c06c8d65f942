// d.mix.b
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 x 4 threads (gpu)
//   x0: norm.layer_norm.mul_8 f32[2, 5, 4]
//   x1: norm.g f32[4]
//   x2: norm.b f32[4]
//   x3: d.mix.add f32[2, 5, 8]
//   y0: d.mix.w f32[4, 8]
//   y1: d.mix.b f32[8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 4>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 4>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 80>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 32>;
@group(0) @binding(5) var<storage, read_write> y1: array<f32, 8>;

const ROWS = 4u;
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

struct LeftRow { p0: u32, v0: f32, v1: f32 }

fn left_row(z: u32, m: u32) -> LeftRow {
  return LeftRow(
    m,
    x1[m],
    x2[m],
  );
}

struct LeftStep { p0: u32 }

fn left_step(k: u32) -> LeftStep {
  return LeftStep(
    k * 4u,
  );
}

fn left(row: LeftRow, step: LeftStep) -> f32 {
  let x_0 = x0[step.p0 + row.p0];
  let mul_0 = (x_0 * row.v0);
  let add_0 = (mul_0 + row.v1);
  return add_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x3[k * 8u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 8u + n] = product;
}

fn finish_sum(n: u32, total: f32) {
  y1[n] = total;
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks.
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
  // What is the same in every tile: the rows that a thread loads.
  let m0_0 = m_tile + slot % ROWS_TILE;
  let row0_0 = left_row(z, min(m0_0, ROWS - 1u));
  var c0_0 = f32();
  var sum0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot / ROWS_TILE;
    let left_k0_step = left_step(min(left_k0, DEPTH - 1u));
    let left0_0 = left(row0_0, left_k0_step);
    let left_k1 = k_tile + (slot + THREADS) / ROWS_TILE;
    let left_k1_step = left_step(min(left_k1, DEPTH - 1u));
    var left1_0 = 0.0;
    if ((slot + THREADS) < 40u) { left1_0 = left(row0_0, left_k1_step); }
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile + u / COLS_TILE;
      let n0_0 = n_tile + u % COLS_TILE;
      var right0_0 = 0.0;
      if (u < 80u) { right0_0 = right(z, right_k0, n0_0); }
      if (u < 80u) { right_tile[(u / COLS_TILE) * RIGHT_STRIDE + u % COLS_TILE] = right0_0; }
    }
    left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0;
    if ((slot + THREADS) < 40u) { left_tile[((slot + THREADS) / ROWS_TILE) * LEFT_STRIDE + (slot + THREADS) % ROWS_TILE] = left1_0; }
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
    finish_sum(n_tile + lane.x, sum0);
  }
  let row0 = m_tile + lane.y;
  finish(z, row0, n_tile + lane.x, c0_0);
}
