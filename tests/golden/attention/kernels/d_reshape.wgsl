// d.reshape
// from attention.wg:16
// 1 x 1 x 1 workgroups of 32 threads (gpu)
//   y0: d.reshape f32[1, 2, 5, 4]
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
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const TILE = 32u;
const LANES = 32u;

fn put_dq(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[h * 20u + t * 4u + d] = x;
}

fn query_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = x0[h * 20u + t * 4u + d];
  return x_0;
}

fn load_query(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(query_at(z, h, t, c * 4u), query_at(z, h, t, c * 4u + 1u), query_at(z, h, t, c * 4u + 2u), query_at(z, h, t, c * 4u + 3u));
}

fn key_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_1 = x1[t * 4u + d];
  return x_1;
}

fn load_key(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(key_at(z, h, t, c * 4u), key_at(z, h, t, c * 4u + 1u), key_at(z, h, t, c * 4u + 2u), key_at(z, h, t, c * 4u + 3u));
}

fn value_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_2 = x2[t * 4u + d];
  return x_2;
}

fn load_value(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(value_at(z, h, t, c * 4u), value_at(z, h, t, c * 4u + 1u), value_at(z, h, t, c * 4u + 2u), value_at(z, h, t, c * 4u + 3u));
}

fn dy_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_3 = x3[h * 20u + t * 4u + d];
  return x_3;
}

fn load_dy(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(dy_at(z, h, t, c * 4u), dy_at(z, h, t, c * 4u + 1u), dy_at(z, h, t, c * 4u + 2u), dy_at(z, h, t, c * 4u + 3u));
}

fn stats_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_4 = x4[h * 15u + t * 3u + d];
  return x_4;
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

// A workgroup makes the gradients of LANES rows of q; it shares TILE keys and values at a time.
// Each thread keeps a row of q, dy and dq in registers.
var<workgroup> key_tile: array<vec4f, TILE * INNER_VEC4>;
var<workgroup> value_tile: array<vec4f, TILE * WIDTH_VEC4>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  let m_first = min(o / PAIRS * LANES, TALL - 1u);
  let m = min(m_first + lane, TALL - 1u);
  let h = h_key * SHARED + m % SHARED;
  let t = m / SHARED;
  let q_0 = SCALE * load_query(z, h, t, 0u);
  var dq_0 = vec4f();
  let dy_0 = load_dy(z, h, t, 0u);
  let peak = stats_at(z, h, t, 0u);
  let log_sum = stats_at(z, h, t, 1u);
  let mean = stats_at(z, h, t, 2u);
  let origin = 0;
  let first = first_key(origin + i32(m_first / SHARED));
  let end = end_key(origin + i32(min(m_first + LANES - 1u, TALL - 1u) / SHARED));
  for (var tile = first; tile < end; tile += TILE) {
    for (var i = lane; i < TILE * INNER_VEC4; i += LANES) {
      key_tile[i] = load_key(z, h_key, min(tile + i / INNER_VEC4, KEYS - 1u), i % INNER_VEC4);
    }
    for (var i = lane; i < TILE * WIDTH_VEC4; i += LANES) {
      value_tile[i] = load_value(z, h_key, min(tile + i / WIDTH_VEC4, KEYS - 1u), i % WIDTH_VEC4);
    }
    workgroupBarrier();
    for (var i = 0u; i < min(TILE, end - tile); i++) {
      let k_0 = key_tile[i * INNER_VEC4 + 0u];
      var x = dot(q_0, k_0);
      var dp = dot(dy_0, value_tile[i * WIDTH_VEC4]);
      let seen = sees(origin + i32(t), i32(tile + i));
      let ds = select(0.0, exp(x - peak - log_sum), seen) * (dp - mean);
      dq_0 += ds * k_0;
    }
    workgroupBarrier();
  }
  if (o / PAIRS * LANES + lane < TALL) {
    put_dq(z, h, t, 0u, SCALE * dq_0.x);
    put_dq(z, h, t, 1u, SCALE * dq_0.y);
    put_dq(z, h, t, 2u, SCALE * dq_0.z);
    put_dq(z, h, t, 3u, SCALE * dq_0.w);
  }
}
