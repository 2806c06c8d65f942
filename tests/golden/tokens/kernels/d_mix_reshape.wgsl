// d.mix.reshape
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 4 x 4 x 8 threads (gpu)
//   x0: d.mix.add f32[2, 5, 8]
//   x1: mix.w f32[4, 8]
//   y0: d.mix.reshape f32[10, 4]
@group(0) @binding(0) var<storage, read> x0: array<vec4f, 20>;
@group(0) @binding(1) var<storage, read> x1: array<vec4f, 8>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 40>;

const ROWS = 10u;
const DEPTH = 8u;
const ACROSS = 4u;
const DOWN = 4u;
const THREADS = 128u;
const TM = 4u;
const TN = 1u;
const TK = 8u;
const SLICES = 8u;
const ROW_STRIDE = 4u;
const SLICE_STRIDE = 80u;
const ROWS_TILE = 16u;
const COLS_TILE = 4u;
const LEFT_STRIDE = 18u;
const RIGHT_STRIDE = 10u;

fn left(z: u32, m: u32, k4: u32) -> vec4f {
  let four_0 = x0[m * 2u + k4];
  return four_0;
}

fn right(z: u32, k4: u32, n: u32) -> vec4f {
  let four_1 = x1[n * 2u + k4];
  return four_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 4u + n] = product;
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
  var c0_0 = f32();
  var c1_0 = f32();
  var c2_0 = f32();
  var c3_0 = f32();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    let left_k0 = k_tile / 4u + slot % 2u;
    let m0_0 = m_tile + slot / 2u;
    var left0_0 = vec4f();
    if (slot < 32u && m0_0 < ROWS) { left0_0 = left(z, m0_0, left_k0); }
    let right_k0 = k_tile / 4u + slot % 2u;
    let n0_0 = n_tile + slot / 2u;
    var right0_0 = vec4f();
    if (slot < 8u) { right0_0 = right(z, right_k0, n0_0); }
    let left_at0 = (slot % 2u) * 4u * LEFT_STRIDE + slot / 2u;
    if (slot < 32u) { left_tile[left_at0] = left0_0[0]; }
    if (slot < 32u) { left_tile[left_at0 + 1u * LEFT_STRIDE] = left0_0[1]; }
    if (slot < 32u) { left_tile[left_at0 + 2u * LEFT_STRIDE] = left0_0[2]; }
    if (slot < 32u) { left_tile[left_at0 + 3u * LEFT_STRIDE] = left0_0[3]; }
    let right_at0 = (slot % 2u) * 4u * RIGHT_STRIDE + slot / 2u;
    if (slot < 8u) { right_tile[right_at0] = right0_0[0]; }
    if (slot < 8u) { right_tile[right_at0 + 1u * RIGHT_STRIDE] = right0_0[1]; }
    if (slot < 8u) { right_tile[right_at0 + 2u * RIGHT_STRIDE] = right0_0[2]; }
    if (slot < 8u) { right_tile[right_at0 + 3u * RIGHT_STRIDE] = right0_0[3]; }
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
    if (m_tile + m < ROWS) { finish(z, m_tile + m, n_tile + n, total); }
  }
}
