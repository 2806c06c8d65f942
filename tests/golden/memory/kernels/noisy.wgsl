// noisy
// from memory.wg:22
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: kept f32[6, 3]
//   scalars: values of one element
//   y0: noisy f32[6, 3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read> scalars: array<u32, 8>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 18>;

const OUTER = 18u;
const WORKGROUP = 64u;

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

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = scalars[1u];
  let x_2 = scalars[2u];
  let random_0 = wg_normal(x_1, 1u, x_2, o);
  let mul_0 = (0.1f * random_0);
  let add_0 = (x_0 + mul_0);
  y0[o] = add_0;
}
