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
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;
const WIDTH = 2u;
const VECTORS = 8u;

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

// A workgroup of SIDE x SIDE threads makes a TILE x TILE block of the result, TM x TN per thread.
// It walks along the inner axis TK at a time, sharing both operands' blocks as vectors of WIDTH
// rows or columns; zeros pad the edges.
var<workgroup> left_tile: array<vec2f, VECTORS * TK>;
var<workgroup> right_tile: array<vec2f, VECTORS * TK>;

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
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i % TK;
      let m = m_tile + i / TK * WIDTH;
      var x = vec2f();
      if (m + 0u < ROWS && k < DEPTH) { x[0] = left(z, m + 0u, k); }
      if (m + 1u < ROWS && k < DEPTH) { x[1] = left(z, m + 1u, k); }
      left_tile[i % TK * VECTORS + i / TK] = x;
    }
    for (var i = slot; i < VECTORS * TK; i += SIDE * SIDE) {
      let k = k_tile + i / VECTORS;
      var x = vec2f();
      let n = n_tile + i % VECTORS * WIDTH;
      if (n + 0u < COLS && k < DEPTH) { x[0] = right(z, k, n + 0u); }
      if (n + 1u < COLS && k < DEPTH) { x[1] = right(z, k, n + 1u); }
      right_tile[i] = x;
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * VECTORS + lane.y * (TM / WIDTH) + 0u];
      let b0 = right_tile[k * VECTORS + lane.x * (TN / WIDTH) + 0u];
      c0_0 = fma(vec2f(a0[0]), b0, c0_0);
      c1_0 = fma(vec2f(a0[1]), b0, c1_0);
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 0u < COLS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 0u, c0_0[0]); }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 1u < COLS) { finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 1u, c0_0[1]); }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 0u < COLS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 0u, c1_0[0]); }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 1u < COLS) { finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 1u, c1_0[1]); }
}
