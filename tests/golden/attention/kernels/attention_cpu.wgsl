// attention
// from attention.wg:25
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   y0: attention f32[1, 2, 1, 4]
//   x0: query f32[2, 1, 4]
//   x1: window_update f32[1, 5, 4]
//   x2: window_update_2 f32[1, 5, 4]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 8>;
@group(0) @binding(1) var<storage, read> x0: array<f32, 8>;
@group(0) @binding(2) var<storage, read> x1: array<f32, 20>;
@group(0) @binding(3) var<storage, read> x2: array<f32, 20>;
@group(0) @binding(4) var<storage, read> scalars: array<u32, 4>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const TALL = 2u;
const KEYS = 5u;
const INNER = 4u;
const WIDTH = 4u;
const BLOCK = 1u;
const BLOCKS = 2u;
const SPAN = 8u;
const LANES = 8u;

fn put_y(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[h * 4u + d] = x;
}

fn y_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = y0[h * 4u + d];
  return x_0;
}

fn query_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_1 = x0[h * 4u + d];
  return x_1;
}

fn key_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_2 = x1[t * 4u + d];
  return x_2;
}

fn value_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_3 = x2[t * 4u + d];
  return x_3;
}

const SCALE = 0.5f;
const HIDDEN = (-1e+30f);

fn sees(row: i32, key: i32) -> bool {
  return (key <= row);
}

fn first_key(row: i32) -> u32 {
  return u32(0);
}

fn end_key(row: i32) -> u32 {
  return u32(max(0, min(5, row + 1)));
}

fn offset() -> i32 {
  let x_4 = bitcast<i32>(scalars[1u]);
  return clamp(x_4, -1, 5);
}

// A thread makes BLOCK rows of one key head's result, SPAN keys at a time: their scores are kept in
// registers, the result so far in its place in memory, relative to the greatest score so far.
// Neighbours work at the same rows of other heads, so that they see equally many keys.
@compute @workgroup_size(LANES)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= PAIRS * BLOCKS) { return; }
  let m = o / PAIRS * BLOCK;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  let m_0 = min(m + 0u, TALL - 1u);
  let h_0 = h_key * SHARED + m_0 % SHARED;
  let t_0 = m_0 / SHARED;
  var peak_0 = HIDDEN;
  var total_0 = 0.0;
  let origin = offset();
  let first = first_key(origin + i32(t_0));
  let end = end_key(origin + i32(t_0));
  // Rows that see nothing go round once, to store zeros.
  for (var s = first; s < max(end, first + 1u); s += SPAN) {
    let s_0 = min(s + 0u, KEYS - 1u);
    let s_1 = min(s + 1u, KEYS - 1u);
    let s_2 = min(s + 2u, KEYS - 1u);
    let s_3 = min(s + 3u, KEYS - 1u);
    let s_4 = min(s + 4u, KEYS - 1u);
    let s_5 = min(s + 5u, KEYS - 1u);
    let s_6 = min(s + 6u, KEYS - 1u);
    let s_7 = min(s + 7u, KEYS - 1u);
    var x_0_0 = 0.0;
    var x_0_1 = 0.0;
    var x_0_2 = 0.0;
    var x_0_3 = 0.0;
    var x_0_4 = 0.0;
    var x_0_5 = 0.0;
    var x_0_6 = 0.0;
    var x_0_7 = 0.0;
    for (var d = 0u; d < INNER; d++) {
      let q_0 = query_at(z, h_0, t_0, d);
      let k_0 = key_at(z, h_key, s_0, d);
      let k_1 = key_at(z, h_key, s_1, d);
      let k_2 = key_at(z, h_key, s_2, d);
      let k_3 = key_at(z, h_key, s_3, d);
      let k_4 = key_at(z, h_key, s_4, d);
      let k_5 = key_at(z, h_key, s_5, d);
      let k_6 = key_at(z, h_key, s_6, d);
      let k_7 = key_at(z, h_key, s_7, d);
      x_0_0 = fma(q_0, k_0, x_0_0);
      x_0_1 = fma(q_0, k_1, x_0_1);
      x_0_2 = fma(q_0, k_2, x_0_2);
      x_0_3 = fma(q_0, k_3, x_0_3);
      x_0_4 = fma(q_0, k_4, x_0_4);
      x_0_5 = fma(q_0, k_5, x_0_5);
      x_0_6 = fma(q_0, k_6, x_0_6);
      x_0_7 = fma(q_0, k_7, x_0_7);
    }
    let row_0 = origin + i32(t_0);
    var high_0 = peak_0;
    let seen_0_0 = (s + 0u < end) & sees(row_0, i32(s + 0u));
    x_0_0 = select(HIDDEN, SCALE * x_0_0, seen_0_0);
    high_0 = max(high_0, x_0_0);
    let seen_0_1 = (s + 1u < end) & sees(row_0, i32(s + 1u));
    x_0_1 = select(HIDDEN, SCALE * x_0_1, seen_0_1);
    high_0 = max(high_0, x_0_1);
    let seen_0_2 = (s + 2u < end) & sees(row_0, i32(s + 2u));
    x_0_2 = select(HIDDEN, SCALE * x_0_2, seen_0_2);
    high_0 = max(high_0, x_0_2);
    let seen_0_3 = (s + 3u < end) & sees(row_0, i32(s + 3u));
    x_0_3 = select(HIDDEN, SCALE * x_0_3, seen_0_3);
    high_0 = max(high_0, x_0_3);
    let seen_0_4 = (s + 4u < end) & sees(row_0, i32(s + 4u));
    x_0_4 = select(HIDDEN, SCALE * x_0_4, seen_0_4);
    high_0 = max(high_0, x_0_4);
    let seen_0_5 = (s + 5u < end) & sees(row_0, i32(s + 5u));
    x_0_5 = select(HIDDEN, SCALE * x_0_5, seen_0_5);
    high_0 = max(high_0, x_0_5);
    let seen_0_6 = (s + 6u < end) & sees(row_0, i32(s + 6u));
    x_0_6 = select(HIDDEN, SCALE * x_0_6, seen_0_6);
    high_0 = max(high_0, x_0_6);
    let seen_0_7 = (s + 7u < end) & sees(row_0, i32(s + 7u));
    x_0_7 = select(HIDDEN, SCALE * x_0_7, seen_0_7);
    high_0 = max(high_0, x_0_7);
    var shrink_0 = exp(peak_0 - high_0);
    peak_0 = high_0;
    total_0 *= shrink_0;
    x_0_0 = select(0.0, exp(x_0_0 - high_0), seen_0_0);
    total_0 += x_0_0;
    x_0_1 = select(0.0, exp(x_0_1 - high_0), seen_0_1);
    total_0 += x_0_1;
    x_0_2 = select(0.0, exp(x_0_2 - high_0), seen_0_2);
    total_0 += x_0_2;
    x_0_3 = select(0.0, exp(x_0_3 - high_0), seen_0_3);
    total_0 += x_0_3;
    x_0_4 = select(0.0, exp(x_0_4 - high_0), seen_0_4);
    total_0 += x_0_4;
    x_0_5 = select(0.0, exp(x_0_5 - high_0), seen_0_5);
    total_0 += x_0_5;
    x_0_6 = select(0.0, exp(x_0_6 - high_0), seen_0_6);
    total_0 += x_0_6;
    x_0_7 = select(0.0, exp(x_0_7 - high_0), seen_0_7);
    total_0 += x_0_7;
    // The last keys make it a mean. A sum that is not zero is at least 1, of the greatest score.
    let share_0 = select(1.0, 1.0 / max(total_0, 1.0), s + SPAN >= end);
    shrink_0 *= share_0;
    x_0_0 *= share_0;
    x_0_1 *= share_0;
    x_0_2 *= share_0;
    x_0_3 *= share_0;
    x_0_4 *= share_0;
    x_0_5 *= share_0;
    x_0_6 *= share_0;
    x_0_7 *= share_0;
    for (var d = 0u; d < WIDTH; d++) {
      let v_0 = value_at(z, h_key, s_0, d);
      let v_1 = value_at(z, h_key, s_1, d);
      let v_2 = value_at(z, h_key, s_2, d);
      let v_3 = value_at(z, h_key, s_3, d);
      let v_4 = value_at(z, h_key, s_4, d);
      let v_5 = value_at(z, h_key, s_5, d);
      let v_6 = value_at(z, h_key, s_6, d);
      let v_7 = value_at(z, h_key, s_7, d);
      var y_0 = 0.0;
      if (s > first) {
        y_0 = shrink_0 * y_at(z, h_0, t_0, d);
      }
      y_0 = fma(x_0_0, v_0, y_0);
      y_0 = fma(x_0_1, v_1, y_0);
      y_0 = fma(x_0_2, v_2, y_0);
      y_0 = fma(x_0_3, v_3, y_0);
      y_0 = fma(x_0_4, v_4, y_0);
      y_0 = fma(x_0_5, v_5, y_0);
      y_0 = fma(x_0_6, v_6, y_0);
      y_0 = fma(x_0_7, v_7, y_0);
      if (m + 0u < TALL) { put_y(z, h_0, t_0, d, y_0); }
    }
  }
}
