// d.cell.wx.w
// from loops.wg:10
// 1 x 1 x 1 workgroups of 32 x 4 threads (gpu)
//   x0: xs f32[2, 6, 3]
//   x1: d.cell.wx.add.all f32[6, 2, 20]
//   y0: d.cell.wx.w f32[3, 20]
@group(0) @binding(0) var<storage, read> x0: array<f32, 36>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 240>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 60>;

const ROWS = 3u;
const COLS = 20u;
const DEPTH = 12u;
const ACROSS = 32u;
const DOWN = 1u;
const THREADS = 128u;
const TM = 4u;
const TN = 1u;
const TK = 12u;
const SLICES = 4u;
const ROW_STRIDE = 32u;
const SLICE_STRIDE = 128u;
const ROWS_TILE = 4u;
const COLS_TILE = 32u;
const LEFT_STRIDE = 4u;
const RIGHT_STRIDE = 32u;

struct LeftRow { p0: u32 }

fn left_row(z: u32, m: u32) -> LeftRow {
  return LeftRow(
    m,
  );
}

struct LeftStep { p0: u32 }

fn left_step(k: u32) -> LeftStep {
  return LeftStep(
    (k % 2u) * 18u + (k / 2u) * 3u,
  );
}

fn left(row: LeftRow, step: LeftStep) -> f32 {
  let x_0 = x0[step.p0 + row.p0];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 20u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 20u + n] = product;
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks; zeros pad the edges.
// SLICES such sets of threads take turns along the inner axis; in the end their results are added.
var<workgroup> left_tile: array<f32, TK * LEFT_STRIDE>;
var<workgroup> right_tile: array<f32, TK * RIGHT_STRIDE>;
var<workgroup> added: array<f32, SLICES * SLICE_STRIDE>;

@compute @workgroup_size(ACROSS, DOWN, SLICES)
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
  var c1_0 = f32();
  var c2_0 = f32();
  var c3_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot / ROWS_TILE;
    let left_k0_step = left_step(min(left_k0, DEPTH - 1u));
    var left0_0 = 0.0;
    if (slot < 48u && m0_0 < ROWS) { left0_0 = left(row0_0, left_k0_step); }
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile + u / COLS_TILE;
      let n0_0 = n_tile + u % COLS_TILE;
      var right0_0 = 0.0;
      if (n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
      right_tile[(u / COLS_TILE) * RIGHT_STRIDE + u % COLS_TILE] = right0_0;
    }
    if (slot < 48u) { left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0; }
    workgroupBarrier();
    for (var k = lane.z; k < TK; k += SLICES) {
      let a0 = vec4f(left_tile[k * LEFT_STRIDE + lane.y], left_tile[k * LEFT_STRIDE + lane.y + 1u * DOWN], left_tile[k * LEFT_STRIDE + lane.y + 2u * DOWN], left_tile[k * LEFT_STRIDE + lane.y + 3u * DOWN]);
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0[0], b0, c0_0);
      c1_0 = fma(a0[1], b0, c1_0);
      c2_0 = fma(a0[2], b0, c2_0);
      c3_0 = fma(a0[3], b0, c3_0);
    }
    workgroupBarrier();
  }
  let part = lane.z * SLICE_STRIDE + lane.y * ROW_STRIDE + lane.x;
  added[part] = c0_0;
  added[part + 1u * DOWN * ROW_STRIDE] = c1_0;
  added[part + 2u * DOWN * ROW_STRIDE] = c2_0;
  added[part + 3u * DOWN * ROW_STRIDE] = c3_0;
  workgroupBarrier();
  for (var result = slot; result < ROWS_TILE * COLS_TILE; result += THREADS) {
    let m = result / COLS_TILE;
    let n = result % COLS_TILE;
    var total = 0.0;
    for (var i = 0u; i < SLICES; i++) { total += added[i * SLICE_STRIDE + m * ROW_STRIDE + n]; }
    if (m_tile + m < ROWS && n_tile + n < COLS) { finish(z, m_tile + m, n_tile + n, total); }
  }
}
