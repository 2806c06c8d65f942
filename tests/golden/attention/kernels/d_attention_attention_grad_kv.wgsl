// d.attention.attention_grad_kv
// from attention.wg:16
// 1 x 1 x 1 workgroups of 32 threads (gpu)
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
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const TILE = 32u;
const LANES = 32u;

fn put_both(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[t * 8u + d] = x;
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

fn first_row(key: i32) -> u32 {
  return u32(max(0, key));
}

fn end_row(key: i32) -> u32 {
  return u32(max(0, 5));
}

// A workgroup makes the gradients of LANES keys and values; it shares TILE rows of q and dy at a
// time. Each thread keeps a key, a value and their gradients in registers.
var<workgroup> query_tile: array<vec4f, TILE * INNER_VEC4>;
var<workgroup> dy_tile: array<vec4f, TILE * WIDTH_VEC4>;
var<workgroup> stats_tile: array<vec4f, TILE>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  let s_first = min(o / PAIRS * LANES, KEYS - 1u);
  let s = min(s_first + lane, KEYS - 1u);
  let k_0 = load_key(z, h_key, s, 0u);
  var dk_0 = vec4f();
  let v_0 = load_value(z, h_key, s, 0u);
  var dv_0 = vec4f();
  let origin = 0;
  let first = SHARED * first_row(i32(s_first) - origin);
  let end = SHARED * end_row(i32(min(s_first + LANES - 1u, KEYS - 1u)) - origin);
  for (var tile = first; tile < end; tile += TILE) {
    for (var i = lane; i < TILE * INNER_VEC4; i += LANES) {
      let m = min(tile + i / INNER_VEC4, TALL - 1u);
      let h = h_key * SHARED + m % SHARED;
      query_tile[i] = SCALE * load_query(z, h, m / SHARED, i % INNER_VEC4);
    }
    for (var i = lane; i < TILE * WIDTH_VEC4; i += LANES) {
      let m = min(tile + i / WIDTH_VEC4, TALL - 1u);
      let h = h_key * SHARED + m % SHARED;
      dy_tile[i] = load_dy(z, h, m / SHARED, i % WIDTH_VEC4);
    }
    for (var i = lane; i < TILE; i += LANES) {
      let m = min(tile + i, TALL - 1u);
      let h = h_key * SHARED + m % SHARED;
      let t = m / SHARED;
      stats_tile[i] = vec4f(stats_at(z, h, t, 0u), stats_at(z, h, t, 1u), stats_at(z, h, t, 2u), 0.0);
    }
    workgroupBarrier();
    for (var i = 0u; i < min(TILE, end - tile); i++) {
      let t = (tile + i) / SHARED;
      let q_0 = query_tile[i * INNER_VEC4 + 0u];
      let dy_0 = dy_tile[i * WIDTH_VEC4 + 0u];
      var x = dot(q_0, k_0);
      var dp = dot(dy_0, v_0);
      let seen = sees(origin + i32(t), i32(s));
      let stats = stats_tile[i];
      let p = select(0.0, exp(x - stats.x - stats.y), seen);
      let ds = p * (dp - stats.z);
      dk_0 += ds * q_0;
      dv_0 += p * dy_0;
    }
    workgroupBarrier();
  }
  if (o / PAIRS * LANES + lane < KEYS) {
    put_both(z, h_key, s, 0u, dk_0.x);
    put_both(z, h_key, s, 1u, dk_0.y);
    put_both(z, h_key, s, 2u, dk_0.z);
    put_both(z, h_key, s, 3u, dk_0.w);
    put_both(z, h_key, s, 4u, dv_0.x);
    put_both(z, h_key, s, 5u, dv_0.y);
    put_both(z, h_key, s, 6u, dv_0.z);
    put_both(z, h_key, s, 7u, dv_0.w);
  }
}
