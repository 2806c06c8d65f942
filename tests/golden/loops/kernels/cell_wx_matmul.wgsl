// cell.wx.matmul
// from loops.wg:10
// 1 x 1 x 1 workgroups of 32 x 2 threads (gpu)
//   scalars: values of one element
//   round0: index u32
//   x0: cell.wx.w f32[3, 20]
//   y0: cell.wx.matmul f32[2, 20]
@group(0) @binding(0) var<storage, read> scalars: array<u32, 8>;
@group(0) @binding(1) var<uniform> round0: vec4u;
@group(0) @binding(2) var<storage, read> x0: array<f32, 60>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 40>;

const COLS = 20u;
const DEPTH = 3u;
const ACROSS = 32u;
const DOWN = 2u;
const THREADS = 64u;
const TM = 1u;
const TN = 1u;
const TK = 3u;
const ROWS_TILE = 2u;
const COLS_TILE = 32u;
const LEFT_STRIDE = 2u;
const RIGHT_STRIDE = 32u;

// The inverse of erf for -1 < x < 1, by Giles' polynomials for single precision.
fn wg_erfinv(x: f32) -> f32 {
  // (1 - x)(1 + x) keeps the digits that 1 - x² would lose near ±1.
  let w = -log((1.0f - x) * (1.0f + x));
  return x * select(wg_erfinv_tail(sqrt(w) - 3.0f), wg_erfinv_middle(w - 2.5f), w < 5.0f);
}

fn wg_erfinv_middle(w: f32) -> f32 {
  var p = 2.81022636e-08f * w + 3.43273939e-07f;
  p = p * w - 3.5233877e-06f;
  p = p * w - 4.39150654e-06f;
  p = p * w + 0.00021858087f;
  p = p * w - 0.00125372503f;
  p = p * w - 0.00417768164f;
  p = p * w + 0.246640727f;
  return p * w + 1.50140941f;
}

fn wg_erfinv_tail(w: f32) -> f32 {
  var p = -0.000200214257f * w + 0.000100950558f;
  p = p * w + 0.00134934322f;
  p = p * w - 0.00367342844f;
  p = p * w + 0.00573950773f;
  p = p * w - 0.0076224613f;
  p = p * w + 0.00943887047f;
  p = p * w + 1.00167406f;
  return p * w + 2.83297682f;
}

// Standard normal by the inverse distribution function; erfinv gets exact numbers, never ±1.
fn wg_normal(seed: u32, site: u32, call: u32, index: u32) -> f32 {
  let bits = wg_threefry(vec2u(seed, site), vec2u(call, index)).x;
  let x = f32(2i * i32(bits >> 9u) + 1i - 8388608i) * 1.1920928955078125e-7f;
  return 1.41421356f * wg_erfinv(x);
}

// Threefry2x32 with 20 rounds: 64 random bits from a key and a counter.
fn wg_threefry(key: vec2u, counter: vec2u) -> vec2u {
  let third = key.x ^ key.y ^ 0x1bd11bdau;
  let even = vec4u(13u, 15u, 26u, 6u);
  let odd = vec4u(17u, 29u, 16u, 24u);
  var state = counter + key;
  state = wg_threefry_rounds(state, even) + vec2u(key.y, third + 1u);
  state = wg_threefry_rounds(state, odd) + vec2u(third, key.x + 2u);
  state = wg_threefry_rounds(state, even) + vec2u(key.x, key.y + 3u);
  state = wg_threefry_rounds(state, odd) + vec2u(key.y, third + 4u);
  return wg_threefry_rounds(state, even) + vec2u(third, key.x + 5u);
}

fn wg_threefry_rounds(start: vec2u, turns: vec4u) -> vec2u {
  let first = wg_threefry_mix(start, turns.x);
  let second = wg_threefry_mix(first, turns.y);
  let third = wg_threefry_mix(second, turns.z);
  return wg_threefry_mix(third, turns.w);
}

fn wg_threefry_mix(state: vec2u, turn: u32) -> vec2u {
  let sum = state.x + state.y;
  return vec2u(sum, ((state.y << turn) | (state.y >> (32u - turn))) ^ sum);
}

// Uniform in [0, 1): 24 random bits, so never 1.
fn wg_uniform(seed: u32, site: u32, call: u32, index: u32) -> f32 {
  let bits = wg_threefry(vec2u(seed, site), vec2u(call, index)).x;
  return f32(bits >> 8u) * 5.9604644775390625e-8f;
}

fn left(z: u32, m: u32, k: u32) -> f32 {
  let x_0 = scalars[1u];
  let x_1 = scalars[2u];
  let x_2 = scalars[4u];
  let random_0 = wg_normal(x_0, x_2, x_1, (m * 3u + k));
  let x_3 = round0.x;
  let cast_0 = i32(x_3);
  let cast_1 = f32(cast_0);
  let add_0 = (random_0 + cast_1);
  return add_0;
}

fn right(z: u32, k: u32, n: u32) -> f32 {
  let x_4 = x0[k * 20u + n];
  return x_4;
}

fn finish(z: u32, m: u32, n: u32, product: f32) {
  y0[m * 20u + n] = product;
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
    if (slot < 6u) { left0_0 = left(z, m0_0, left_k0); }
    let right_k0 = k_tile + slot / COLS_TILE;
    let n0_0 = n_tile + slot % COLS_TILE;
    var right0_0 = 0.0;
    if (n0_0 < COLS) { right0_0 = right(z, right_k0, n0_0); }
    let right_k1 = k_tile + (slot + THREADS) / COLS_TILE;
    let n1_0 = n_tile + (slot + THREADS) % COLS_TILE;
    var right1_0 = 0.0;
    if ((slot + THREADS) < 96u && n1_0 < COLS) { right1_0 = right(z, right_k1, n1_0); }
    if (slot < 6u) { left_tile[(slot / ROWS_TILE) * LEFT_STRIDE + slot % ROWS_TILE] = left0_0; }
    right_tile[(slot / COLS_TILE) * RIGHT_STRIDE + slot % COLS_TILE] = right0_0;
    if ((slot + THREADS) < 96u) { right_tile[((slot + THREADS) / COLS_TILE) * RIGHT_STRIDE + (slot + THREADS) % COLS_TILE] = right1_0; }
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
