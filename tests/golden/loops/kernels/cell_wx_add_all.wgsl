// cell.wx.add.all
// from loops.wg:10
// 5 x 1 x 1 workgroups of 4 x 16 threads (gpu)
//   x0: xs f32[2, 6, 3]
//   x1: cell.wx.w f32[3, 20]
//   x2: cell.wx.b f32[20]
//   y0: cell.wx.add.all f32[6, 2, 20]
@group(0) @binding(0) var<storage, read> x0: array<f32, 36>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 60>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 20>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 240>;

const ROWS = 12u;
const DEPTH = 3u;
const ACROSS = 4u;
const DOWN = 16u;
const TM = 1u;
const TN = 1u;
const TK = 3u;
const ROWS_TILE = 16u;
const COLS_TILE = 4u;
const LEFT_STRIDE = 16u;
const RIGHT_STRIDE = 4u;

struct LeftRow { p0: u32 }

fn left_row(z: u32, m: u32) -> LeftRow {
  return LeftRow(
    (m % 2u) * 18u + (m / 2u) * 3u,
  );
}

struct LeftStep { p0: u32 }

fn left_step(k: u32) -> LeftStep {
  return LeftStep(
    k,
  );
}

fn left(row: LeftRow, step: LeftStep) -> f32 {
  let x_0 = x0[row.p0 + step.p0];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 20u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  y0[m * 20u + n] = add_0;
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
  // What is the same in every tile: the rows that a thread loads.
  let m0_0 = m_tile + slot % ROWS_TILE;
  let row0_0 = left_row(z, min(m0_0, ROWS - 1u));
  var c0_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot / ROWS_TILE;
    let left_k0_step = left_step(min(left_k0, DEPTH - 1u));
    var left0_0 = 0.0;
    if (slot < 48u && m0_0 < ROWS) { left0_0 = left(row0_0, left_k0_step); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (slot < 12u) { right0_0 = right(z, right_k0, n0_0); }
    if (slot < 48u) { left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0; }
    if (slot < 12u) { right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0; }
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
