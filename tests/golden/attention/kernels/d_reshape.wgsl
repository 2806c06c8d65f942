// d.reshape
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: d.reshape f32[1, 2, 5, 4]
//   x0: q f32[2, 5, 4]
//   x1: k f32[1, 5, 4]
//   x2: v f32[1, 5, 4]
//   x3: d.sub f32[2, 5, 4]
//   x4: attention f32[1, 2, 5, 4]
//   x5: attention_2 f32[1, 2, 5, 2]
//   y1: d.attention.attention_stats f32[1, 2, 5, 3]
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 10>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 10>;
@group(0) @binding(2) var<storage, read> x1: array<vec4f, 5>;
@group(0) @binding(3) var<storage, read> x2: array<vec4f, 5>;
@group(0) @binding(4) var<storage, read> x3: array<vec4f, 10>;
@group(0) @binding(5) var<storage, read> x4: array<vec4f, 10>;
@group(0) @binding(6) var<storage, read> x5: array<f32, 20>;
@group(0) @binding(7) var<storage, read_write> y1: array<f32, 30>;

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
const OWN_AREA = 288u;
const OTHER_AREA = 40u;

fn put_dq(z: u32, h: u32, t: u32, c: u32, x: vec4f) {
  y0[h * 5u + t] = vec4f(x.x, x.y, x.z, x.w);
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

fn load_y(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_4 = x4[h * 5u + t];
  return four_4;
}

fn kept_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = x5[h * 10u + t * 2u + d];
  return x_0;
}

fn put_stats(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y1[h * 15u + t * 3u + d] = x;
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

fn query_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_query(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn dy_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_dy(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn y_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_y(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn key_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_key(z, h_key, min(s, KEYS - 1u), c);
}

fn value_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_value(z, h_key, min(s, KEYS - 1u), c);
}

// Scores as they count: scaled, with the mask, HIDDEN where a row does not see a key.
fn scores(x: vec4f, z: u32, h_key: u32, m: vec4u, s: u32, origin: i32, near: bool) -> vec4f {
  let t = m / SHARED;
  let seen = vec4<bool>(
    near & sees(origin + i32(t.x), i32(s)),
    near & sees(origin + i32(t.y), i32(s)),
    near & sees(origin + i32(t.z), i32(s)),
    near & sees(origin + i32(t.w), i32(s)),
  );
  return select(vec4f(HIDDEN), SCALE * x, seen);
}

fn finish_dq(z: u32, h_key: u32, m: u32, c: u32, x: vec4f) {
  if (m < TALL && c < INNER_VEC4) { put_dq(z, h_key * SHARED + m % SHARED, m / SHARED, c, x); }
}

fn kept_of(z: u32, h_key: u32, m: u32) -> vec2f {
  let at = min(m, TALL - 1u);
  let h = h_key * SHARED + at % SHARED;
  return vec2f(kept_at(z, h, at / SHARED, 0u), kept_at(z, h, at / SHARED, 1u));
}

// A workgroup makes the gradients of OWN rows of q, TILE keys at a time. ACROSS threads share four
// rows: each of them computes the scores of some keys, and a part of the gradients. Heads are shared
// CHUNK vectors at a time.
// Before that, the threads of a row add up its products of the result and the gradient of that, and
// one of them stores the sum with what the forward pass kept of the row, for the gradients of keys.
var<workgroup> own_tile: array<vec4f, OWN_AREA>;
var<workgroup> other_tile: array<vec4f, OTHER_AREA>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  // Of eight threads, four are side by side and two below each other: so they read least of tiles.
  let across = slot % 4u + slot / 8u % (ACROSS / 4u) * 4u;
  let down = slot / 4u % 2u + slot / (2u * ACROSS) * 2u;
  let m = o / PAIRS * OWN + down + vec4u(0u, DOWN, 2u * DOWN, 3u * DOWN);
  let m_first = min(o / PAIRS * OWN, TALL - 1u);
  let kept_0 = kept_of(z, h_key, m.x);
  let kept_1 = kept_of(z, h_key, m.y);
  let kept_2 = kept_of(z, h_key, m.z);
  let kept_3 = kept_of(z, h_key, m.w);
  let peak = vec4f(kept_0.x, kept_1.x, kept_2.x, kept_3.x);
  let log_sum = vec4f(kept_0.y, kept_1.y, kept_2.y, kept_3.y);
  var part = vec4f();
  for (var c = across; c < WIDTH_VEC4; c += ACROSS) {
    part.x += dot(y_row(z, h_key, m.x, c), dy_row(z, h_key, m.x, c));
    part.y += dot(y_row(z, h_key, m.y, c), dy_row(z, h_key, m.y, c));
    part.z += dot(y_row(z, h_key, m.z, c), dy_row(z, h_key, m.z, c));
    part.w += dot(y_row(z, h_key, m.w, c), dy_row(z, h_key, m.w, c));
  }
  own_tile[across * WEIGHTS_STRIDE + down] = part;
  workgroupBarrier();
  var mean = vec4f();
  for (var i = 0u; i < ACROSS; i++) { mean += own_tile[i * WEIGHTS_STRIDE + down]; }
  workgroupBarrier();
  // The first thread of the four rows stores one of them, the next one another.
  let row = m[across % 4u];
  if (across < 4u && row < TALL) {
    let h = h_key * SHARED + row % SHARED;
    let t = row / SHARED;
    put_stats(z, h, t, 0u, peak[across]);
    put_stats(z, h, t, 1u, log_sum[across]);
    put_stats(z, h, t, 2u, mean[across]);
  }
  var dq_0_0 = vec4f();
  var dq_1_0 = vec4f();
  var dq_2_0 = vec4f();
  var dq_3_0 = vec4f();
  let origin = 0;
  let first = first_key(origin + i32(m_first / SHARED));
  let end = end_key(origin + i32(min(m_first + OWN - 1u, TALL - 1u) / SHARED));
  for (var tile = first; tile < end; tile += TILE) {
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
      own_tile[at] = vec4f(query_row(z, h_key, m_first + i / CHUNK, c));
      other_tile[at] = vec4f(key_row(z, h_key, tile + i / CHUNK, c));
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
      own_tile[at] = vec4f(dy_row(z, h_key, m_first + i / CHUNK, c));
      other_tile[at] = vec4f(value_row(z, h_key, tile + i / CHUNK, c));
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
    let key_0 = tile + across;
    x_0 = scores(x_0, z, h_key, m, key_0, origin, key_0 < end);
    dp_0 = select(
      vec4f(),
      exp(x_0 - peak - log_sum),
      x_0 != vec4f(HIDDEN),
    ) * (dp_0 - mean);
    let key_1 = tile + across + ACROSS;
    x_1 = scores(x_1, z, h_key, m, key_1, origin, key_1 < end);
    dp_1 = select(
      vec4f(),
      exp(x_1 - peak - log_sum),
      x_1 != vec4f(HIDDEN),
    ) * (dp_1 - mean);
    let key_2 = tile + across + 2u * ACROSS;
    x_2 = scores(x_2, z, h_key, m, key_2, origin, key_2 < end);
    dp_2 = select(
      vec4f(),
      exp(x_2 - peak - log_sum),
      x_2 != vec4f(HIDDEN),
    ) * (dp_2 - mean);
    let key_3 = tile + across + 3u * ACROSS;
    x_3 = scores(x_3, z, h_key, m, key_3, origin, key_3 < end);
    dp_3 = select(
      vec4f(),
      exp(x_3 - peak - log_sum),
      x_3 != vec4f(HIDDEN),
    ) * (dp_3 - mean);
    own_tile[across * WEIGHTS_STRIDE + down] = vec4f(dp_0);
    own_tile[(across + ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_1);
    own_tile[(across + 2u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_2);
    own_tile[(across + 3u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(dp_3);
    if (slot < INNER_PART * INNER_VEC4) {
      let i = slot;
      other_tile[i] = vec4f(key_row(
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
      dq_0_0 += weights.x * other_0;
      dq_1_0 += weights.y * other_0;
      dq_2_0 += weights.z * other_0;
      dq_3_0 += weights.w * other_0;
    }
    workgroupBarrier();
  }
  finish_dq(z, h_key, m.x, across, SCALE * dq_0_0);
  finish_dq(z, h_key, m.y, across, SCALE * dq_1_0);
  finish_dq(z, h_key, m.z, across, SCALE * dq_2_0);
  finish_dq(z, h_key, m.w, across, SCALE * dq_3_0);
}
