// l2.matmul
// from halves.wg:14
// 4 x 4 x 1 workgroups of 4 x 2 x 16 threads (gpu)
//   x0: tanh f32[32, 32]
//   x1: l2.w f32[32, 32]
//   y0: l2.matmul f32[32, 32]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<vec4h, 256>;
@group(0) @binding(1) var<storage, read> x1: array<f16, 1024>;
@group(0) @binding(2) var<storage, read_write> y0: array<f16, 1024>;

const DEPTH = 32u;
const ACROSS = 4u;
const DOWN = 2u;
const THREADS = 128u;
const TM = 4u;
const TN = 2u;
const TK = 32u;
const SLICES = 16u;
const ROW_STRIDE = 12u;
const SLICE_STRIDE = 104u;
const ROWS_TILE = 8u;
const COLS_TILE = 8u;
const LEFT_STRIDE = 10u;
const RIGHT_STRIDE = 8u;

fn left(z: u32, m: u32, k4: u32) -> vec4f {
  let four_0 = vec4f(x0[m * 8u + k4]);
  return four_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_0 = f32(x1[k * 32u + n]);
  return x_0;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 32u + n] = f16(product);
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
  var c0_0 = vec2f();
  var c1_0 = vec2f();
  var c2_0 = vec2f();
  var c3_0 = vec2f();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile / 4u + slot % 4u + slot / (4u * ROWS_TILE) * 4u;
    let m0_0 = m_tile + slot / 4u % ROWS_TILE;
    var left0_0 = vec4f();
    if (slot < 64u) { left0_0 = left(z, m0_0, left_k0); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    let right0_0 = right(z, right_k0, n0_0);
    let right_k1 = k_tile + (slot + THREADS) / COLS_TILE;
    let n1_0 = n_tile + (slot + THREADS) % COLS_TILE;
    let right1_0 = right(z, right_k1, n1_0);
    let left_at0 = (slot % 4u + slot / (4u * ROWS_TILE) * 4u) * 4u * LEFT_STRIDE + slot / 4u % ROWS_TILE;
    if (slot < 64u) { left_tile[left_at0] = f16(left0_0[0]); }
    if (slot < 64u) { left_tile[left_at0 + 1u * LEFT_STRIDE] = f16(left0_0[1]); }
    if (slot < 64u) { left_tile[left_at0 + 2u * LEFT_STRIDE] = f16(left0_0[2]); }
    if (slot < 64u) { left_tile[left_at0 + 3u * LEFT_STRIDE] = f16(left0_0[3]); }
    right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = f16(right0_0);
    right_tile[((slot + THREADS) / COLS_TILE) * RIGHT_STRIDE + (slot + THREADS) % COLS_TILE] = f16(right1_0);
    workgroupBarrier();
    for (var k = lane.z; k < TK; k += SLICES) {
      let a0 = vec4f(f32(left_tile[k * LEFT_STRIDE + lane.y]), f32(left_tile[k * LEFT_STRIDE + lane.y + 1u * DOWN]), f32(left_tile[k * LEFT_STRIDE + lane.y + 2u * DOWN]), f32(left_tile[k * LEFT_STRIDE + lane.y + 3u * DOWN]));
      let b0 = vec2f(f32(right_tile[k * RIGHT_STRIDE + lane.x]), f32(right_tile[k * RIGHT_STRIDE + lane.x + 1u * ACROSS]));
      c0_0 = fma(vec2f(a0[0]), b0, c0_0);
      c1_0 = fma(vec2f(a0[1]), b0, c1_0);
      c2_0 = fma(vec2f(a0[2]), b0, c2_0);
      c3_0 = fma(vec2f(a0[3]), b0, c3_0);
    }
    workgroupBarrier();
  }
  let part = lane.z * SLICE_STRIDE + lane.y * ROW_STRIDE + lane.x;
  added[part] = c0_0[0];
  added[part + 1u * ACROSS] = c0_0[1];
  added[part + 1u * DOWN * ROW_STRIDE] = c1_0[0];
  added[part + 1u * DOWN * ROW_STRIDE + 1u * ACROSS] = c1_0[1];
  added[part + 2u * DOWN * ROW_STRIDE] = c2_0[0];
  added[part + 2u * DOWN * ROW_STRIDE + 1u * ACROSS] = c2_0[1];
  added[part + 3u * DOWN * ROW_STRIDE] = c3_0[0];
  added[part + 3u * DOWN * ROW_STRIDE + 1u * ACROSS] = c3_0[1];
  workgroupBarrier();
  for (var result = slot; result < ROWS_TILE * COLS_TILE; result += THREADS) {
    let m = result / COLS_TILE;
    let n = result % COLS_TILE;
    var total = 0.0;
    for (var i = 0u; i < SLICES; i++) { total += added[i * SLICE_STRIDE + m * ROW_STRIDE + n]; }
    finish(z, m_tile + m, n_tile + n, total);
  }
}
