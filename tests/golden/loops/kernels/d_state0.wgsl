// d.state0
// from loops.wg:10
// 3 x 1 x 1 workgroups of 2 x 2 threads (gpu)
//   round0: index_2 u32
//   x0: d.cell.wx.add.all f32[6, 2, 20]
//   x1: cell.wh.w f32[5, 20]
//   y0: d.state0 f32[2, 5]
@group(0) @binding(0) var<uniform> round0: vec4u;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 60>;
@group(0) @binding(2) var<storage, read> x1: array<vec4f, 25>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 10>;

const COLS = 5u;
const DEPTH = 20u;
const ACROSS = 2u;
const DOWN = 2u;
const THREADS = 4u;
const TM = 1u;
const TN = 1u;
const TK = 20u;
const ROWS_TILE = 2u;
const COLS_TILE = 2u;
const LEFT_STRIDE = 2u;
const RIGHT_STRIDE = 2u;

fn left(z: u32, m: u32, k4: u32) -> vec4f {
  let four_0 = x0[round0.x * 10u + m * 5u + k4];
  return four_0;
}

fn right(z: u32, k4: u32, n: u32) -> vec4f {
  let four_1 = x1[n * 5u + k4];
  return four_1;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 5u + n] = product;
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
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let left_k0 = k_tile / 4u + u % 1u + u / (1u * ROWS_TILE) * 1u;
      let m0_0 = m_tile + u / 1u % ROWS_TILE;
      var left0_0 = vec4f();
      if (u < 10u) { left0_0 = left(z, m0_0, left_k0); }
      let left_at0 = (u % 1u + u / (1u * ROWS_TILE) * 1u) * 4u * LEFT_STRIDE + u / 1u % ROWS_TILE;
      if (u < 10u) { left_tile[left_at0] = left0_0[0]; }
      if (u < 10u) { left_tile[left_at0 + 1u * LEFT_STRIDE] = left0_0[1]; }
      if (u < 10u) { left_tile[left_at0 + 2u * LEFT_STRIDE] = left0_0[2]; }
      if (u < 10u) { left_tile[left_at0 + 3u * LEFT_STRIDE] = left0_0[3]; }
    }
    for (var i = 0u; i < 3u; i++) {
      let u = slot + i * THREADS;
      let right_k0 = k_tile / 4u + u % 1u + u / (1u * COLS_TILE) * 1u;
      let n0_0 = n_tile + u / 1u % COLS_TILE;
      var right0_0 = vec4f();
      if (u < 10u && n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
      let right_at0 = (u % 1u + u / (1u * COLS_TILE) * 1u) * 4u * RIGHT_STRIDE + u / 1u % COLS_TILE;
      if (u < 10u) { right_tile[right_at0] = right0_0[0]; }
      if (u < 10u) { right_tile[right_at0 + 1u * RIGHT_STRIDE] = right0_0[1]; }
      if (u < 10u) { right_tile[right_at0 + 2u * RIGHT_STRIDE] = right0_0[2]; }
      if (u < 10u) { right_tile[right_at0 + 3u * RIGHT_STRIDE] = right0_0[3]; }
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * LEFT_STRIDE + lane.y];
      let b0 = right_tile[k * RIGHT_STRIDE + lane.x];
      c0_0 = fma(a0, b0, c0_0);
    }
    workgroupBarrier();
  }
  let row0 = m_tile + lane.y;
  if (n_tile + lane.x < COLS) { finish(z, row0, n_tile + lane.x, c0_0); }
}
