// d.attention.attention_grad_kv
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: d.attention.attention_grad_kv f32[1, 1, 5, 8]
//   x0: q f32[2, 5, 4]
//   x1: k f32[1, 5, 4]
//   x2: v f32[1, 5, 4]
//   x3: d.sub f32[2, 5, 4]
//   x4: d.attention.attention_stats f32[1, 2, 5, 3]
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 10>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 10>;
@group(0) @binding(2) var<storage, read> x1: array<vec4f, 5>;
@group(0) @binding(3) var<storage, read> x2: array<vec4f, 5>;
@group(0) @binding(4) var<storage, read> x3: array<vec4f, 10>;
@group(0) @binding(5) var<storage, read> x4: array<f32, 30>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const TALL = 10u;
const KEYS = 5u;
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const ACROSS = 8u;
const DOWN = 8u;
const THREADS = 64u;
const OWN = 32u;
const TILE = 32u;
const CHUNK = 1u;
const STRIDE = 1u;
const WEIGHTS_STRIDE = 9u;
const INNER_PART = 32u;
const WIDTH_PART = 32u;
const OWN_AREA = 288u;
const OTHER_AREA = 40u;
const STATS = 3u;

fn put_dk(z: u32, h: u32, t: u32, c: u32, x: vec4f) {
  y0[t * 2u] = vec4f(x.x, x.y, x.z, x.w);
}

fn put_dv(z: u32, h: u32, t: u32, c: u32, x: vec4f) {
  y0[t * 2u + 1u] = vec4f(x.x, x.y, x.z, x.w);
}

fn load_query(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_0 = x0[h * 5u + t];
  return four_0;
}

fn load_key(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_1 = x1[t];
  return four_1;
}

fn load_value(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_2 = x2[t];
  return four_2;
}

fn load_dy(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_3 = x3[h * 5u + t];
  return four_3;
}

fn stats_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = x4[h * 15u + t * 3u + d];
  return x_0;
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

fn query_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_query(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn dy_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_dy(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn key_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_key(z, h_key, min(s, KEYS - 1u), c);
}

fn value_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_value(z, h_key, min(s, KEYS - 1u), c);
}

// Scores as they count: scaled, with the mask, HIDDEN where a row does not see a key.
fn scores(x: vec4f, z: u32, h_key: u32, m: u32, s: vec4u, origin: i32, near: bool) -> vec4f {
  let t = m / SHARED;
  let seen = vec4<bool>(
    near & sees(origin + i32(t), i32(s.x)),
    near & sees(origin + i32(t), i32(s.y)),
    near & sees(origin + i32(t), i32(s.z)),
    near & sees(origin + i32(t), i32(s.w)),
  );
  return select(vec4f(HIDDEN), SCALE * x, seen);
}

fn finish_dk(z: u32, h_key: u32, s: u32, c: u32, x: vec4f) {
  if (s < KEYS && c < INNER_VEC4) { put_dk(z, h_key, s, c, x); }
}

fn finish_dv(z: u32, h_key: u32, s: u32, c: u32, x: vec4f) {
  if (s < KEYS && c < WIDTH_VEC4) { put_dv(z, h_key, s, c, x); }
}

// A workgroup makes the gradients of OWN keys and values, TILE rows at a time. ACROSS threads share
// four keys: each of them computes the scores of some rows, and a part of the gradients. Heads are
// shared CHUNK vectors at a time.
var<workgroup> own_tile: array<vec4f, OWN_AREA>;
var<workgroup> other_tile: array<vec4f, OTHER_AREA>;
var<workgroup> stats_tile: array<f32, TILE * STATS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  // Of eight threads, four are side by side and two below each other: so they read least of tiles.
  let across = slot % 4u + slot / 8u % (ACROSS / 4u) * 4u;
  let down = slot / 4u % 2u + slot / (2u * ACROSS) * 2u;
  let s = o / PAIRS * OWN + down + vec4u(0u, DOWN, 2u * DOWN, 3u * DOWN);
  let s_first = min(o / PAIRS * OWN, KEYS - 1u);
  var dk_0_0 = vec4f();
  var dk_1_0 = vec4f();
  var dk_2_0 = vec4f();
  var dk_3_0 = vec4f();
  var dv_0_0 = vec4f();
  var dv_1_0 = vec4f();
  var dv_2_0 = vec4f();
  var dv_3_0 = vec4f();
  let origin = 0;
  let first = SHARED * first_row(i32(s_first) - origin);
  let end = SHARED * end_row(i32(min(s_first + OWN - 1u, KEYS - 1u)) - origin);
  for (var tile = first; tile < end; tile += TILE) {
    for (var i = slot; i < TILE * STATS; i += THREADS) {
      let m = min(tile + i / STATS, TALL - 1u);
      stats_tile[i] = stats_at(z, h_key * SHARED + m % SHARED, m / SHARED, i % STATS);
    }
    var x_0 = vec4f();
    var dp_0 = vec4f();
    var x_1 = vec4f();
    var dp_1 = vec4f();
    var x_2 = vec4f();
    var dp_2 = vec4f();
    var x_3 = vec4f();
    var dp_3 = vec4f();
    if (slot < OWN * CHUNK) {
      let i = slot;
      let c = min(i % CHUNK, INNER_VEC4 - 1u);
      let at = i / CHUNK * STRIDE + i % CHUNK;
      own_tile[at] = vec4f(key_row(z, h_key, s_first + i / CHUNK, c));
      other_tile[at] = vec4f(query_row(z, h_key, tile + i / CHUNK, c));
    }
    workgroupBarrier();
    for (var c = 0u; c < INNER_VEC4; c++) {
      let own_0 = vec4f(own_tile[down * STRIDE + c]);
      let own_1 = vec4f(own_tile[(down + DOWN) * STRIDE + c]);
      let own_2 = vec4f(own_tile[(down + 2u * DOWN) * STRIDE + c]);
      let own_3 = vec4f(own_tile[(down + 3u * DOWN) * STRIDE + c]);
      let other_0 = vec4f(other_tile[across * STRIDE + c]);
      x_0 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_0.x), x_0);
      x_0 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_0.y), x_0);
      x_0 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_0.z), x_0);
      x_0 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_0.w), x_0);
      let other_1 = vec4f(other_tile[(across + ACROSS) * STRIDE + c]);
      x_1 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_1.x), x_1);
      x_1 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_1.y), x_1);
      x_1 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_1.z), x_1);
      x_1 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_1.w), x_1);
      let other_2 = vec4f(other_tile[(across + 2u * ACROSS) * STRIDE + c]);
      x_2 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_2.x), x_2);
      x_2 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_2.y), x_2);
      x_2 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_2.z), x_2);
      x_2 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_2.w), x_2);
      let other_3 = vec4f(other_tile[(across + 3u * ACROSS) * STRIDE + c]);
      x_3 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_3.x), x_3);
      x_3 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_3.y), x_3);
      x_3 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_3.z), x_3);
      x_3 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_3.w), x_3);
    }
    workgroupBarrier();
    if (slot < OWN * CHUNK) {
      let i = slot;
      let c = min(i % CHUNK, WIDTH_VEC4 - 1u);
      let at = i / CHUNK * STRIDE + i % CHUNK;
      own_tile[at] = vec4f(value_row(z, h_key, s_first + i / CHUNK, c));
      other_tile[at] = vec4f(dy_row(z, h_key, tile + i / CHUNK, c));
    }
    workgroupBarrier();
    for (var c = 0u; c < WIDTH_VEC4; c++) {
      let own_0 = vec4f(own_tile[down * STRIDE + c]);
      let own_1 = vec4f(own_tile[(down + DOWN) * STRIDE + c]);
      let own_2 = vec4f(own_tile[(down + 2u * DOWN) * STRIDE + c]);
      let own_3 = vec4f(own_tile[(down + 3u * DOWN) * STRIDE + c]);
      let other_0 = vec4f(other_tile[across * STRIDE + c]);
      dp_0 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_0.x), dp_0);
      dp_0 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_0.y), dp_0);
      dp_0 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_0.z), dp_0);
      dp_0 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_0.w), dp_0);
      let other_1 = vec4f(other_tile[(across + ACROSS) * STRIDE + c]);
      dp_1 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_1.x), dp_1);
      dp_1 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_1.y), dp_1);
      dp_1 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_1.z), dp_1);
      dp_1 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_1.w), dp_1);
      let other_2 = vec4f(other_tile[(across + 2u * ACROSS) * STRIDE + c]);
      dp_2 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_2.x), dp_2);
      dp_2 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_2.y), dp_2);
      dp_2 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_2.z), dp_2);
      dp_2 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_2.w), dp_2);
      let other_3 = vec4f(other_tile[(across + 3u * ACROSS) * STRIDE + c]);
      dp_3 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_3.x), dp_3);
      dp_3 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_3.y), dp_3);
      dp_3 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_3.z), dp_3);
      dp_3 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_3.w), dp_3);
    }
    workgroupBarrier();
    // A score that is not a number is no hidden one.
    let i_0 = across;
    let m_0 = tile + i_0;
    x_0 = scores(x_0, z, h_key, m_0, s, origin, m_0 < end);
    x_0 = select(
      vec4f(),
      exp(x_0 - stats_tile[STATS * i_0] - stats_tile[STATS * i_0 + 1u]),
      x_0 != vec4f(HIDDEN),
    );
    dp_0 = x_0 * (dp_0 - stats_tile[STATS * i_0 + 2u]);
    let i_1 = across + ACROSS;
    let m_1 = tile + i_1;
    x_1 = scores(x_1, z, h_key, m_1, s, origin, m_1 < end);
    x_1 = select(
      vec4f(),
      exp(x_1 - stats_tile[STATS * i_1] - stats_tile[STATS * i_1 + 1u]),
      x_1 != vec4f(HIDDEN),
    );
    dp_1 = x_1 * (dp_1 - stats_tile[STATS * i_1 + 2u]);
    let i_2 = across + 2u * ACROSS;
    let m_2 = tile + i_2;
    x_2 = scores(x_2, z, h_key, m_2, s, origin, m_2 < end);
    x_2 = select(
      vec4f(),
      exp(x_2 - stats_tile[STATS * i_2] - stats_tile[STATS * i_2 + 1u]),
      x_2 != vec4f(HIDDEN),
    );
    dp_2 = x_2 * (dp_2 - stats_tile[STATS * i_2 + 2u]);
    let i_3 = across + 3u * ACROSS;
    let m_3 = tile + i_3;
    x_3 = scores(x_3, z, h_key, m_3, s, origin, m_3 < end);
    x_3 = select(
      vec4f(),
      exp(x_3 - stats_tile[STATS * i_3] - stats_tile[STATS * i_3 + 1u]),
      x_3 != vec4f(HIDDEN),
    );
    dp_3 = x_3 * (dp_3 - stats_tile[STATS * i_3 + 2u]);
    own_tile[across * WEIGHTS_STRIDE + down] = vec4f(x_0);
    own_tile[(across + ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_1);
    own_tile[(across + 2u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_2);
    own_tile[(across + 3u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_3);
    if (slot < WIDTH_PART * WIDTH_VEC4) {
      let i = slot;
      other_tile[i] = vec4f(dy_row(
        z,
        h_key,
        tile + i / WIDTH_VEC4,
        i % WIDTH_VEC4,
      ));
    }
    workgroupBarrier();
    for (var c = 0u; c < WIDTH_PART; c++) {
      let weights = vec4f(own_tile[c * WEIGHTS_STRIDE + down]);
      let other_0 = vec4f(other_tile[c * WIDTH_VEC4 + across]);
      dv_0_0 += weights.x * other_0;
      dv_1_0 += weights.y * other_0;
      dv_2_0 += weights.z * other_0;
      dv_3_0 += weights.w * other_0;
    }
    workgroupBarrier();
    own_tile[across * WEIGHTS_STRIDE + down] = vec4f(dp_0);
    own_tile[(across + ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_1);
    own_tile[(across + 2u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_2);
    own_tile[(across + 3u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_3);
    if (slot < INNER_PART * INNER_VEC4) {
      let i = slot;
      other_tile[i] = vec4f(query_row(
        z,
        h_key,
        tile + i / INNER_VEC4,
        i % INNER_VEC4,
      ));
    }
    workgroupBarrier();
    for (var c = 0u; c < INNER_PART; c++) {
      let weights = vec4f(own_tile[c * WEIGHTS_STRIDE + down]);
      let other_0 = vec4f(other_tile[c * INNER_VEC4 + across]);
      dk_0_0 += weights.x * other_0;
      dk_1_0 += weights.y * other_0;
      dk_2_0 += weights.z * other_0;
      dk_3_0 += weights.w * other_0;
    }
    workgroupBarrier();
  }
  finish_dk(z, h_key, s.x, across, SCALE * dk_0_0);
  finish_dk(z, h_key, s.y, across, SCALE * dk_1_0);
  finish_dk(z, h_key, s.z, across, SCALE * dk_2_0);
  finish_dk(z, h_key, s.w, across, SCALE * dk_3_0);
  finish_dv(z, h_key, s.x, across, dv_0_0);
  finish_dv(z, h_key, s.y, across, dv_1_0);
  finish_dv(z, h_key, s.z, across, dv_2_0);
  finish_dv(z, h_key, s.w, across, dv_3_0);
}
