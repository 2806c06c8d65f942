// l2.matmul.mul
// from regression.wg:9
// 1 x 1 x 1 workgroups of 8 x 8 threads (gpu)
//   x0: x f32[2, 3]
//   x1: l1.w f32[3, 5]
//   x2: l1.b f32[5]
//   x3: l2.w f32[5, 1]
//   y0: l2.matmul.mul f32[2, 5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 15>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 5>;
@group(0) @binding(3) var<storage, read> x3: array<f32, 5>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 10>;

const ROWS = 2u;
const COLS = 5u;
const DEPTH = 3u;
const SIDE = 8u;
const TM = 2u;
const TN = 2u;
const TILE = 16u;
const TK = 16u;

// tanh x. Near 0 a polynomial, which keeps the relative error small; from 9.1 on it is 1 in f32,
// and exp must not overflow. The comparisons are such that NaN stays NaN.
fn wg_tanh(x: f32) -> f32 {
  let a = abs(x);
  let z = x * x;
  var p = -0.005905868f * z + 0.020805385f;
  p = p * z - 0.053786684f;
  p = p * z + 0.13331959f;
  p = p * z - 0.33333299f;
  let e = exp(2.0f * select(a, 15.0f, a > 15.0f));
  let far = 1.0f - 2.0f / (e + 1.0f);
  return select(x + x * z * p, select(far, -far, x < 0.0f), a >= 0.6f);
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
  let x_1 = x3[n];
  let mul_0 = (tanh_0 * x_1);
  y0[m * 5u + n] = mul_0;
}

// A workgroup of SIDE x SIDE threads makes a TILE x TILE block of the result, TM x TN per thread.
// It walks along the inner axis TK at a time, sharing both operands' blocks; zeros pad the edges.
var<workgroup> left_tile: array<f32, TILE * TK>;
var<workgroup> right_tile: array<f32, TK * TILE>;

@compute @workgroup_size(SIDE, SIDE)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_id) lane: vec3u,
  @builtin(local_invocation_index) slot: u32,
) {
  let z = group.z;
  let m_tile = group.y * TILE;
  let n_tile = group.x * TILE;
  var c00 = 0.0;
  var c01 = 0.0;
  var c10 = 0.0;
  var c11 = 0.0;
  for (var k_tile = 0u; k_tile < DEPTH; k_tile += TK) {
    for (var i = slot; i < TILE * TK; i += SIDE * SIDE) {
      let m = m_tile + i / TK;
      let k = k_tile + i % TK;
      var x = 0.0;
      if (m < ROWS && k < DEPTH) { x = left(z, m, k); }
      left_tile[(i % TK) * TILE + i / TK] = x;
    }
    for (var i = slot; i < TK * TILE; i += SIDE * SIDE) {
      let k = k_tile + i / TILE;
      let n = n_tile + i % TILE;
      var x = 0.0;
      if (k < DEPTH && n < COLS) { x = right(z, k, n); }
      right_tile[i] = x;
    }
    workgroupBarrier();
    for (var k = 0u; k < TK; k++) {
      let a0 = left_tile[k * TILE + lane.y * TM + 0u];
      let a1 = left_tile[k * TILE + lane.y * TM + 1u];
      let b0 = right_tile[k * TILE + lane.x * TN + 0u];
      let b1 = right_tile[k * TILE + lane.x * TN + 1u];
      c00 = fma(a0, b0, c00);
      c01 = fma(a0, b1, c01);
      c10 = fma(a1, b0, c10);
      c11 = fma(a1, b1, c11);
    }
    workgroupBarrier();
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 0u < COLS) {
    finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 0u, c00);
  }
  if (m_tile + lane.y * TM + 0u < ROWS && n_tile + lane.x * TN + 1u < COLS) {
    finish(z, m_tile + lane.y * TM + 0u, n_tile + lane.x * TN + 1u, c01);
  }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 0u < COLS) {
    finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 0u, c10);
  }
  if (m_tile + lane.y * TM + 1u < ROWS && n_tile + lane.x * TN + 1u < COLS) {
    finish(z, m_tile + lane.y * TM + 1u, n_tile + lane.x * TN + 1u, c11);
  }
}
