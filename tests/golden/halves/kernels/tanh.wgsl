// tanh
// from halves.wg:14
// 8 x 1 x 1 workgroups of 4 x 8 x 4 threads (gpu)
//   x0: x f32[32, 4]
//   x1: l1.w f32[4, 32]
//   x2: l1.b f32[32]
//   y0: tanh f32[32, 32]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<f32, 128>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 128>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 32>;
@group(0) @binding(3) var<storage, read_write> y0: array<f16, 1024>;

const DEPTH = 4u;
const ACROSS = 4u;
const DOWN = 8u;
const THREADS = 128u;
const TM = 4u;
const TN = 1u;
const TK = 4u;
const SLICES = 4u;
const ROW_STRIDE = 4u;
const SLICE_STRIDE = 128u;
const ROWS_TILE = 32u;
const COLS_TILE = 4u;
const LEFT_STRIDE = 40u;
const RIGHT_STRIDE = 4u;

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
  let x_0 = x0[m * 4u + k];
  return x_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_1 = x1[k * 32u + n];
  return x_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  let x_0 = x2[n];
  let add_0 = (product + x_0);
  let tanh_0 = wg_tanh(add_0);
  y0[m * 32u + n] = f16(tanh_0);
}

// A workgroup of ACROSS x DOWN threads makes a ROWS_TILE x COLS_TILE block of the result, TM x TN per
// thread. It walks along the inner axis TK at a time, sharing both operands' blocks.
// SLICES such sets of threads take turns along the inner axis; in the end their results are added.
var<workgroup> left_tile: array<f16, TK * LEFT_STRIDE>;
var<workgroup> right_tile: array<f16, TK * RIGHT_STRIDE>;
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
  var c0_0 = f32();
  var c1_0 = f32();
  var c2_0 = f32();
  var c3_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile + slot % TK;
    let m0_0 = m_tile + slot / TK;
    let left0_0 = left(z, m0_0, left_k0);
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (slot < 16u) { right0_0 = right(z, right_k0, n0_0); }
    left_tile[(slot % TK) * LEFT_STRIDE + slot / TK] = f16(left0_0);
    if (slot < 16u) { right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = f16(right0_0); }
    workgroupBarrier();
    for (var k = lane.z; k < TK; k += SLICES) {
      let a0 = vec4f(f32(left_tile[k * LEFT_STRIDE + lane.y]), f32(left_tile[k * LEFT_STRIDE + lane.y + 1u * DOWN]), f32(left_tile[k * LEFT_STRIDE + lane.y + 2u * DOWN]), f32(left_tile[k * LEFT_STRIDE + lane.y + 3u * DOWN]));
      let b0 = f32(right_tile[k * RIGHT_STRIDE + lane.x]);
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
    finish(z, m_tile + m, n_tile + n, total);
  }
}
