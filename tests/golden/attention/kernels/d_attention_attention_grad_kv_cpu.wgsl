// d.attention.attention_grad_kv
// from attention.wg:16
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   y0: d.attention.attention_grad_kv f32[1, 1, 5, 8]
//   x0: q f32[2, 5, 4]
//   x1: k f32[1, 5, 4]
//   x2: v f32[1, 5, 4]
//   x3: d.sub f32[2, 5, 4]
//   x4: d.attention.attention_stats f32[1, 2, 5, 3]
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(2) var<storage, read> x1: array<f32, 20>;
@group(0) @binding(3) var<storage, read> x2: array<f32, 20>;
@group(0) @binding(4) var<storage, read> x3: array<f32, 40>;
@group(0) @binding(5) var<storage, read> x4: array<f32, 30>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const TALL = 10u;
const KEYS = 5u;
const INNER = 4u;
const WIDTH = 4u;
const BLOCK = 1u;
const BLOCKS = 5u;
const SPAN = 8u;
const LANES = 8u;

fn put_both(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[t * 8u + d] = x;
}

fn both_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = y0[t * 8u + d];
  return x_0;
}

fn query_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_1 = x0[h * 20u + t * 4u + d];
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

fn dy_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_4 = x3[h * 20u + t * 4u + d];
  return x_4;
}

fn stats_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_5 = x4[h * 15u + t * 3u + d];
  return x_5;
}

const SCALE = 0.5f;
const HIDDEN = (-1e+30f);

fn sees(row: i32, key: i32) -> bool {
  return (key <= row);
}

fn first_row(key: i32) -> u32 {
  return u32(max(0, key));
}

fn end_row(key: i32) -> u32 {
  return u32(max(0, 5));
}

// A thread makes the gradients of BLOCK keys and values, SPAN rows at a time: scores and the
// gradients of the probabilities are kept in registers, the results so far in their place in
// memory. Neighbours work at the same keys of other heads: equally many rows see them.
@compute @workgroup_size(LANES)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= PAIRS * BLOCKS) { return; }
  let s = o / PAIRS * BLOCK;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  let s_0 = min(s + 0u, KEYS - 1u);
  let origin = 0;
  let first = SHARED * first_row(i32(s_0) - origin);
  let end = SHARED * end_row(i32(s_0) - origin);
  // Keys that no row sees go round once, to store zeros.
  for (var m = first; m < max(end, first + 1u); m += SPAN) {
    let m_0 = min(m + 0u, TALL - 1u);
    let h_0 = h_key * SHARED + m_0 % SHARED;
    let t_0 = m_0 / SHARED;
    var x_0_0 = 0.0;
    var dp_0_0 = 0.0;
    let m_1 = min(m + 1u, TALL - 1u);
    let h_1 = h_key * SHARED + m_1 % SHARED;
    let t_1 = m_1 / SHARED;
    var x_1_0 = 0.0;
    var dp_1_0 = 0.0;
    let m_2 = min(m + 2u, TALL - 1u);
    let h_2 = h_key * SHARED + m_2 % SHARED;
    let t_2 = m_2 / SHARED;
    var x_2_0 = 0.0;
    var dp_2_0 = 0.0;
    let m_3 = min(m + 3u, TALL - 1u);
    let h_3 = h_key * SHARED + m_3 % SHARED;
    let t_3 = m_3 / SHARED;
    var x_3_0 = 0.0;
    var dp_3_0 = 0.0;
    let m_4 = min(m + 4u, TALL - 1u);
    let h_4 = h_key * SHARED + m_4 % SHARED;
    let t_4 = m_4 / SHARED;
    var x_4_0 = 0.0;
    var dp_4_0 = 0.0;
    let m_5 = min(m + 5u, TALL - 1u);
    let h_5 = h_key * SHARED + m_5 % SHARED;
    let t_5 = m_5 / SHARED;
    var x_5_0 = 0.0;
    var dp_5_0 = 0.0;
    let m_6 = min(m + 6u, TALL - 1u);
    let h_6 = h_key * SHARED + m_6 % SHARED;
    let t_6 = m_6 / SHARED;
    var x_6_0 = 0.0;
    var dp_6_0 = 0.0;
    let m_7 = min(m + 7u, TALL - 1u);
    let h_7 = h_key * SHARED + m_7 % SHARED;
    let t_7 = m_7 / SHARED;
    var x_7_0 = 0.0;
    var dp_7_0 = 0.0;
    for (var d = 0u; d < INNER; d++) {
      let q_0 = query_at(z, h_0, t_0, d);
      let q_1 = query_at(z, h_1, t_1, d);
      let q_2 = query_at(z, h_2, t_2, d);
      let q_3 = query_at(z, h_3, t_3, d);
      let q_4 = query_at(z, h_4, t_4, d);
      let q_5 = query_at(z, h_5, t_5, d);
      let q_6 = query_at(z, h_6, t_6, d);
      let q_7 = query_at(z, h_7, t_7, d);
      let k_0 = key_at(z, h_key, s_0, d);
      x_0_0 = fma(q_0, k_0, x_0_0);
      x_1_0 = fma(q_1, k_0, x_1_0);
      x_2_0 = fma(q_2, k_0, x_2_0);
      x_3_0 = fma(q_3, k_0, x_3_0);
      x_4_0 = fma(q_4, k_0, x_4_0);
      x_5_0 = fma(q_5, k_0, x_5_0);
      x_6_0 = fma(q_6, k_0, x_6_0);
      x_7_0 = fma(q_7, k_0, x_7_0);
    }
    for (var d = 0u; d < WIDTH; d++) {
      let dy_0 = dy_at(z, h_0, t_0, d);
      let dy_1 = dy_at(z, h_1, t_1, d);
      let dy_2 = dy_at(z, h_2, t_2, d);
      let dy_3 = dy_at(z, h_3, t_3, d);
      let dy_4 = dy_at(z, h_4, t_4, d);
      let dy_5 = dy_at(z, h_5, t_5, d);
      let dy_6 = dy_at(z, h_6, t_6, d);
      let dy_7 = dy_at(z, h_7, t_7, d);
      let v_0 = value_at(z, h_key, s_0, d);
      dp_0_0 = fma(dy_0, v_0, dp_0_0);
      dp_1_0 = fma(dy_1, v_0, dp_1_0);
      dp_2_0 = fma(dy_2, v_0, dp_2_0);
      dp_3_0 = fma(dy_3, v_0, dp_3_0);
      dp_4_0 = fma(dy_4, v_0, dp_4_0);
      dp_5_0 = fma(dy_5, v_0, dp_5_0);
      dp_6_0 = fma(dy_6, v_0, dp_6_0);
      dp_7_0 = fma(dy_7, v_0, dp_7_0);
    }
    let row_0 = origin + i32(t_0);
    let peak_0 = stats_at(z, h_0, t_0, 0u);
    let log_0 = stats_at(z, h_0, t_0, 1u);
    let mean_0 = stats_at(z, h_0, t_0, 2u);
    let seen_0_0 = (m + 0u < end) & sees(row_0, i32(s_0));
    x_0_0 *= SCALE;
    let p_0_0 = select(0.0, exp(x_0_0 - peak_0 - log_0), seen_0_0);
    let ds_0_0 = SCALE * p_0_0 * (dp_0_0 - mean_0);
    let row_1 = origin + i32(t_1);
    let peak_1 = stats_at(z, h_1, t_1, 0u);
    let log_1 = stats_at(z, h_1, t_1, 1u);
    let mean_1 = stats_at(z, h_1, t_1, 2u);
    let seen_1_0 = (m + 1u < end) & sees(row_1, i32(s_0));
    x_1_0 *= SCALE;
    let p_1_0 = select(0.0, exp(x_1_0 - peak_1 - log_1), seen_1_0);
    let ds_1_0 = SCALE * p_1_0 * (dp_1_0 - mean_1);
    let row_2 = origin + i32(t_2);
    let peak_2 = stats_at(z, h_2, t_2, 0u);
    let log_2 = stats_at(z, h_2, t_2, 1u);
    let mean_2 = stats_at(z, h_2, t_2, 2u);
    let seen_2_0 = (m + 2u < end) & sees(row_2, i32(s_0));
    x_2_0 *= SCALE;
    let p_2_0 = select(0.0, exp(x_2_0 - peak_2 - log_2), seen_2_0);
    let ds_2_0 = SCALE * p_2_0 * (dp_2_0 - mean_2);
    let row_3 = origin + i32(t_3);
    let peak_3 = stats_at(z, h_3, t_3, 0u);
    let log_3 = stats_at(z, h_3, t_3, 1u);
    let mean_3 = stats_at(z, h_3, t_3, 2u);
    let seen_3_0 = (m + 3u < end) & sees(row_3, i32(s_0));
    x_3_0 *= SCALE;
    let p_3_0 = select(0.0, exp(x_3_0 - peak_3 - log_3), seen_3_0);
    let ds_3_0 = SCALE * p_3_0 * (dp_3_0 - mean_3);
    let row_4 = origin + i32(t_4);
    let peak_4 = stats_at(z, h_4, t_4, 0u);
    let log_4 = stats_at(z, h_4, t_4, 1u);
    let mean_4 = stats_at(z, h_4, t_4, 2u);
    let seen_4_0 = (m + 4u < end) & sees(row_4, i32(s_0));
    x_4_0 *= SCALE;
    let p_4_0 = select(0.0, exp(x_4_0 - peak_4 - log_4), seen_4_0);
    let ds_4_0 = SCALE * p_4_0 * (dp_4_0 - mean_4);
    let row_5 = origin + i32(t_5);
    let peak_5 = stats_at(z, h_5, t_5, 0u);
    let log_5 = stats_at(z, h_5, t_5, 1u);
    let mean_5 = stats_at(z, h_5, t_5, 2u);
    let seen_5_0 = (m + 5u < end) & sees(row_5, i32(s_0));
    x_5_0 *= SCALE;
    let p_5_0 = select(0.0, exp(x_5_0 - peak_5 - log_5), seen_5_0);
    let ds_5_0 = SCALE * p_5_0 * (dp_5_0 - mean_5);
    let row_6 = origin + i32(t_6);
    let peak_6 = stats_at(z, h_6, t_6, 0u);
    let log_6 = stats_at(z, h_6, t_6, 1u);
    let mean_6 = stats_at(z, h_6, t_6, 2u);
    let seen_6_0 = (m + 6u < end) & sees(row_6, i32(s_0));
    x_6_0 *= SCALE;
    let p_6_0 = select(0.0, exp(x_6_0 - peak_6 - log_6), seen_6_0);
    let ds_6_0 = SCALE * p_6_0 * (dp_6_0 - mean_6);
    let row_7 = origin + i32(t_7);
    let peak_7 = stats_at(z, h_7, t_7, 0u);
    let log_7 = stats_at(z, h_7, t_7, 1u);
    let mean_7 = stats_at(z, h_7, t_7, 2u);
    let seen_7_0 = (m + 7u < end) & sees(row_7, i32(s_0));
    x_7_0 *= SCALE;
    let p_7_0 = select(0.0, exp(x_7_0 - peak_7 - log_7), seen_7_0);
    let ds_7_0 = SCALE * p_7_0 * (dp_7_0 - mean_7);
    for (var d = 0u; d < INNER; d++) {
      let q_0 = query_at(z, h_0, t_0, d);
      let q_1 = query_at(z, h_1, t_1, d);
      let q_2 = query_at(z, h_2, t_2, d);
      let q_3 = query_at(z, h_3, t_3, d);
      let q_4 = query_at(z, h_4, t_4, d);
      let q_5 = query_at(z, h_5, t_5, d);
      let q_6 = query_at(z, h_6, t_6, d);
      let q_7 = query_at(z, h_7, t_7, d);
      var dk_0 = 0.0;
      if (m > first) {
        dk_0 = both_at(z, h_key, s_0, d);
      }
      dk_0 = fma(ds_0_0, q_0, dk_0);
      dk_0 = fma(ds_1_0, q_1, dk_0);
      dk_0 = fma(ds_2_0, q_2, dk_0);
      dk_0 = fma(ds_3_0, q_3, dk_0);
      dk_0 = fma(ds_4_0, q_4, dk_0);
      dk_0 = fma(ds_5_0, q_5, dk_0);
      dk_0 = fma(ds_6_0, q_6, dk_0);
      dk_0 = fma(ds_7_0, q_7, dk_0);
      if (s + 0u < KEYS) { put_both(z, h_key, s_0, d, dk_0); }
    }
    for (var d = 0u; d < WIDTH; d++) {
      let dy_0 = dy_at(z, h_0, t_0, d);
      let dy_1 = dy_at(z, h_1, t_1, d);
      let dy_2 = dy_at(z, h_2, t_2, d);
      let dy_3 = dy_at(z, h_3, t_3, d);
      let dy_4 = dy_at(z, h_4, t_4, d);
      let dy_5 = dy_at(z, h_5, t_5, d);
      let dy_6 = dy_at(z, h_6, t_6, d);
      let dy_7 = dy_at(z, h_7, t_7, d);
      var dv_0 = 0.0;
      if (m > first) {
        dv_0 = both_at(z, h_key, s_0, INNER + d);
      }
      dv_0 = fma(p_0_0, dy_0, dv_0);
      dv_0 = fma(p_1_0, dy_1, dv_0);
      dv_0 = fma(p_2_0, dy_2, dv_0);
      dv_0 = fma(p_3_0, dy_3, dv_0);
      dv_0 = fma(p_4_0, dy_4, dv_0);
      dv_0 = fma(p_5_0, dy_5, dv_0);
      dv_0 = fma(p_6_0, dy_6, dv_0);
      dv_0 = fma(p_7_0, dy_7, dv_0);
      if (s + 0u < KEYS) { put_both(z, h_key, s_0, INNER + d, dv_0); }
    }
  }
}
