// d.l1.b
// from halves.wg:13
// 2 x 1 x 1 workgroups of 8 x 8 threads (gpu)
//   x0: x f32[32, 4]
//   x1: d.l1.add f32[32, 32]
//   y0: d.l1.w f32[4, 32]
//   y1: d.l1.b f32[32]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<f32, 128>;
@group(0) @binding(1) var<storage, read> x1: array<f16, 1024>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 128>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 32>;

const ROWS = 4u;
const DEPTH = 32u;
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;
const WIDTH = 2u;
const VECTORS = 8u;

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

// A workgroup of SIDE x SIDE threads makes a TILE x TILE block of the result, TM x TN per thread.
// It walks along the inner axis TK at a time, sharing both operands' blocks as vectors of WIDTH
// rows or columns; zeros pad the edges.
var<workgroup> left_tile: array<vec2f, VECTORS * TK>;
var<workgroup> right_tile: array<vec2h, VECTORS * TK>;

@compute @workgroup_size(SIDE, SIDE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * TILE;
  let n_tile = group.x * TILE;
  var c0_0 = vec2f();
  var c1_0 = vec2f();
  var sum0 = vec2f();
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i % TK;
      let m = m_tile + i / TK * WIDTH;
      var x = vec2f();
      if (m + 0u < ROWS) { x[0] = left(z, m + 0u, k); }
      if (m + 1u < ROWS) { x[1] = left(z, m + 1u, k); }
      left_tile[i % TK * VECTORS + i / TK] = x;
    }
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i / VECTORS;
      var x = vec2f();
      let n = n_tile + i % VECTORS * WIDTH;
      x[0] = right(z, k, n + 0u);
      x[1] = right(z, k, n + 1u);
      right_tile[i] = vec2h(x);
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * VECTORS + lane.y * (TM / WIDTH) + 0u];
      let b0 = vec2f(right_tile[k * VECTORS + lane.x * (TN / WIDTH) + 0u]);
      c0_0 = fma(vec2f(a0[0]), b0, c0_0);
      c1_0 = fma(vec2f(a0[1]), b0, c1_0);
      sum0 += b0;
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y == 0u) {
    finish_sum(n_tile + lane.x * TN + 0u, sum0[0]);
    finish_sum(n_tile + lane.x * TN + 1u, sum0[1]);
  }
  if (m_tile + lane.y * TM + 0u < ROWS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 0u, c0_0[0]); }
  if (m_tile + lane.y * TM + 0u < ROWS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 1u, c0_0[1]); }
  if (m_tile + lane.y * TM + 1u < ROWS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 0u, c1_0[0]); }
  if (m_tile + lane.y * TM + 1u < ROWS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 1u, c1_0[1]); }
}
