// tanh
// from regression.wg:9
// 1 x 1 x 1 workgroups of 8 x 8 threads (gpu)
//   x0: x f32[6, 3]
//   x1: l1.w f32[3, 5]
//   x2: l1.b f32[5]
//   y0: tanh f32[6, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 15>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 5>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 30>;

const ROWS = 6u;
const COLS = 5u;
const DEPTH = 3u;
const ACROSS = 8u;
const DOWN = 8u;
const TM = 1u;
const TN = 1u;
const TK = 3u;
const ROWS_TILE = 8u;
const COLS_TILE = 8u;
const LEFT_STRIDE = 8u;
const RIGHT_STRIDE = 8u;

// tanh x = x p(x²) / q(x²), a minimax fit with p(0) = q(0) = 1, which keeps the relative error small
// near 0. From 8.8 on it is 1 in f32. The comparisons are such that NaN stays NaN; no rounding may
// give a result beyond 1.
fn wg_tanh(x: f32) -> f32 {
  let above = select(x, -8.8f, x < -8.8f);
  let c = select(above, 8.8f, above > 8.8f);
  let z = c * c;
  var p = 1.37793802e-8f * z + 2.09160746e-5f;
  p = p * z + 3.51431858e-3f;
  p = p * z + 0.133968364f;
  p = p * z + 1.0f;
  var q = 7.95042998e-7f * z + 3.31620397e-4f;
  q = q * z + 2.59483552e-2f;
  q = q * z + 0.4673016f;
  q = q * z + 1.0f;
  let y = c * p / q;
  let least = select(y, -1.0f, y < -1.0f);
  return select(least, 1.0f, least > 1.0f);
}

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = x0[m * 3u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 5u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  let tanh_0 = wg_tanh(add_0);
  y0[m * 5u + n] = tanh_0;
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
    if (slot < 24u && m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (slot < 24u && n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
    if (slot < 24u) { left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0; }
    if (slot < 24u) { right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0; }
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
    if (n_tile + lane.x < COLS) { finish(z, row0, n_tile + lane.x, c0_0); }
  }
}
